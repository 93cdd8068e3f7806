"""Tables of rounds: ratios (docs/performance.md), seconds, shares and scaling.

    python benchmarks/ranges.py results/published/rounds/epyc-25-17/*

A folder has the reports of one occasion. Seconds and shares are medians over the occasions; a ratio is a range. The
ratio of FlatFed in bfloat16 to float32, two processes, is the quotient of their ratios to ``resident``. Needs no torch.
"""

import argparse
import json
from pathlib import Path
from statistics import median

HEAD = ["", "threads", "algorithm", "executor"]
YARDSTICK = "resident"  # with which both precisions are compared
SHOWN = ("fedavg", "fedsmoo")  # the least and the most arithmetic


def reports_of(folder):
    """Return the reports in ``folder``, sorted by file name."""
    contents = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    reports = [content for content in contents if "sessions" in content and content.get("rows")]
    if not reports:
        raise SystemExit(f"{folder}: holds no report of benchmarks/rounds.py")
    return reports


def rows_of(folder):
    """Return {(workload, precision, threads, algorithm): row} of the reports in ``folder``."""
    rows = {}
    for report in reports_of(folder):
        for row in report["rows"]:
            if row["kind"] == "round":
                precision = row.setdefault("precision", "float32")  # missing in old reports
                peak = report["sessions"][row["session"]]["peak"]
                if peak.get("products", "float32") != precision:  # its floor has another format
                    del row["of_floor"]
                rows[row["workload"], precision, row["threads"], row["algorithm"]] = row
    return rows


def scaling_of(folder):
    """Return {(quantity, value): {algorithm: seconds}}, {seeds: {algorithm: speed-up}}."""
    rounds, together = {}, {}
    for report in reports_of(folder):
        for row in report["rows"]:
            if row["kind"] == "scaling":
                seconds = min(summary["median"] for summary in row["seconds"].values())
                for key in sized(row):
                    rounds.setdefault(key, {})[row["algorithm"]] = seconds
            elif row["kind"] == "seeds":
                alone, joined = (row["seconds"][key]["median"] for key in ("alone", "together"))
                together.setdefault(row["seeds"], {})[row["algorithm"]] = alone / joined
    return rounds, together


def sized(row):
    """Return the (quantity, value) pairs of a row of scaling."""
    if row["workload"] != "W3-10":
        return [("model (2 clients, 2 steps of 50)", f"{row['workload']}, {row['parameters']:,} parameters")]
    both = {"clients a round": "clients", "clients": "total"}
    changed = [name for name in both if name in row["changed"]] or list(both)
    words = {"clients a round": "clients a round (W3, 100 in all)", "clients": "clients in all (W3, 10 a round)"}
    return [(words[name], f"{row[both[name]]:,}") for name in changed]


def fastest(rows):
    """Return FlatFed's fastest executor in ``rows``."""
    return min(rows[0]["ratio"], key=lambda executor: median(row["seconds"][executor]["median"] for row in rows))


def between(values, digits=2):
    ends = [f"{end:.{digits}f}" for end in (min(values), max(values))]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def table(occasions, precision):
    keys = [key for key in occasions[0] if key[1] == precision and all(key in rows for rows in occasions)]
    if not keys:
        return []
    example = [rows[keys[0]] for rows in occasions]
    yardsticks = list(example[0]["ratio"][fastest(example)])
    floors = all("of_floor" in rows[key] for rows in occasions for key in keys)
    plain = [(key[0], "float32", *key[2:]) for key in keys]
    paired = precision != "float32" and all(key in rows for rows in occasions for key in plain)
    seconds, factors = [f"{name}, s" for name in yardsticks], [f"over {name}" for name in yardsticks]
    more = [*(["over ours in float32"] if paired else []), *(["floor, %"] if floors else [])]
    head = [*HEAD, *seconds, "ours, s", *factors, *more]
    lines = [head, ["---"] * len(head)]
    for key, plain_key in zip(keys, plain, strict=True):
        rows = [occasion[key] for occasion in occasions]
        ours = fastest(rows)
        seconds = [f"{median(row['seconds'][name]['median'] for row in rows):.3f}" for name in (*yardsticks, ours)]
        factors = [between([row["ratio"][ours][name] for row in rows]) for name in yardsticks]
        if paired:
            factors.append(between([over(occasion[key]) / over(occasion[plain_key]) for occasion in occasions]))
        floor = [between([100 * row["of_floor"][ours] for row in rows], digits=0)] if floors else []
        lines.append([key[0], str(key[2]), row_name(key[3]), ours, *seconds, *factors, *floor])
    return markdown(lines)


def over(row):
    """Return the yardstick's seconds over FlatFed's."""
    return row["ratio"][fastest([row])][YARDSTICK]


def phases(occasions):
    """Return a table of the shares of a round and of an evaluation, in percent."""
    measured = [key for key in occasions[0] if all("phases" in rows.get(key, ()) for rows in occasions)]
    keys = [key for key in measured if key[3] in SHOWN]
    if not keys:
        return []
    names = list(occasions[0][keys[0]]["phases"][fastest([occasions[0][keys[0]]])])
    lines = [["", "precision", "algorithm", *names, "evaluation"], ["---"] * (len(names) + 4)]
    for key in keys:
        rows = [occasion[key] for occasion in occasions]
        ours = fastest(rows)
        shares = [median(100 * row["phases"][ours][name] for row in rows) for name in names]
        shares.append(median(100 * row["evaluation"]["share"] for row in rows))
        lines.append([key[0], key[1], row_name(key[3]), *(f"{share:.1f}" for share in shares)])
    return markdown(lines)


def scaling(folder):
    """Return tables of milliseconds of a round by size, and of speed-ups of joint seeds."""
    tables = []
    rounds, together = scaling_of(folder)
    for head, values, text in (
        (["what", ""], rounds, lambda seconds: f"{1000 * seconds:.0f}"),
        (["seeds"], {(str(seeds),): times for seeds, times in together.items()}, lambda times: f"{times:.2f}"),
    ):
        if values:
            lines = [[*head, *map(row_name, SHOWN)], ["---"] * (len(head) + len(SHOWN))]
            order = list(dict.fromkeys(key[0] for key in values))
            for key in sorted(values, key=lambda key: order.index(key[0])):
                lines.append([*key, *(text(values[key][name]) for name in SHOWN)])
            tables += [*markdown(lines), ""]
    return tables


def markdown(lines):
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def row_name(algorithm):
    return {"fedavg": "FedAvg", "fedsam": "FedSAM", "scaffold": "SCAFFOLD", "fedsmoo": "FedSMOO"}[algorithm]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("occasions", nargs="+", type=Path, help="folders of reports, one per occasion")
    folders = parser.parse_args().occasions
    occasions = [rows_of(folder) for folder in folders]
    for precision in ("float32", "bfloat16"):
        if lines := table(occasions, precision):
            print(f"{precision}\n", *lines, "", sep="\n")
    if lines := phases(occasions):
        print("shares of a round, %\n", *lines, "", sep="\n")
    for folder in folders:
        if lines := scaling(folder):
            print(f"scaling, {folder.name}: milliseconds of a round; speed-up of joint seeds\n", *lines, sep="\n")


if __name__ == "__main__":
    main()
