"""Ratios (those of docs/performance.md), seconds, shares and scaling of rounds, from reports of several occasions.

    python benchmarks/ranges.py results/published/rounds/epyc-25-17/*

Each folder is one occasion, its files are reports of ``benchmarks/rounds.py``. Seconds are medians of the occasions'
medians; a factor is the least and the largest of the occasions', whose own are medians over turns. Ours in bfloat16
over ours in float32, which ran in two processes, is the quotient of their factors over ``resident``. Where the time of
a round goes is the median of the occasions. Scaling is shown of each by itself. Needs no torch.
"""

import argparse
import json
from pathlib import Path
from statistics import median

HEAD = ["", "threads", "algorithm", "executor"]
YARDSTICK = "resident"  # which both precisions are held against
SHOWN = ("fedavg", "fedsmoo")  # whose shares are shown: the least, and the most, arithmetic of an algorithm's own


def reports_of(folder):
    """Return the reports in ``folder``, in the order of their files' names."""
    found = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    reports = [each for each in found if isinstance(each, dict) and "sessions" in each and each.get("rows")]
    if not reports:
        raise SystemExit(f"{folder}: no report of benchmarks/rounds.py in it")
    return reports


def rows_of(folder):
    """Return {(workload, precision, threads, algorithm): row} of the rounds in the reports of ``folder``."""
    found = {}
    for report in reports_of(folder):
        for row in report["rows"]:
            if row["kind"] == "round":
                precision = row.setdefault("precision", "float32")  # which older reports do not say
                peak = report["sessions"][row["session"]]["peak"]
                if peak.get("products", "float32") != precision:  # a floor of products in another format is none
                    del row["of_floor"]
                found[row["workload"], precision, row["threads"], row["algorithm"]] = row
    return found


def scaling_of(folder):
    """Return {(what, value): {algorithm: seconds}} and {seeds: {algorithm: times as fast}} of the reports."""
    rounds, together = {}, {}
    for report in reports_of(folder):
        for row in report["rows"]:
            if row["kind"] == "scaling":
                seconds = min(each["median"] for each in row["seconds"].values())
                for key in sized(row):
                    rounds.setdefault(key, {})[row["algorithm"]] = seconds
            elif row["kind"] == "seeds":
                alone, joined = (row["seconds"][key]["median"] for key in ("alone", "together"))
                together.setdefault(row["seeds"], {})[row["algorithm"]] = alone / joined
    return rounds, together


def sized(row):
    """Return what a row of scaling is measured for, and its value; the workload as it is stands for two of them."""
    if row["workload"] != "W3-10":
        return [("model (2 clients, 2 steps of 50)", f"{row['workload']}, {row['parameters']:,} parameters")]
    both = {"clients a round": "clients", "clients": "total"}
    changed = [name for name in both if name in row["changed"]] or list(both)
    words = {"clients a round": "clients a round (W3, 100 in all)", "clients": "clients in all (W3, 10 a round)"}
    return [(words[name], f"{row[both[name]]:,}") for name in changed]


def fastest(rows):
    """Return the executor of ours with the least median of ``rows``."""
    return min(rows[0]["ratio"], key=lambda executor: median(row["seconds"][executor]["median"] for row in rows))


def between(values, digits=2):
    """Return the least and the largest of ``values`` as they are read, one where they are the same."""
    ends = [f"{end:.{digits}f}" for end in (min(values), max(values))]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def table(occasions, precision):
    """Return the lines of the table of ``precision``, yardsticks in the order in which they were measured."""
    keys = [key for key in occasions[0] if key[1] == precision and all(key in each for each in occasions)]
    if not keys:
        return []
    first = [each[keys[0]] for each in occasions]
    yardsticks = list(first[0]["ratio"][fastest(first)])
    floors = all("of_floor" in each[key] for each in occasions for key in keys)
    plain = [(key[0], "float32", *key[2:]) for key in keys]
    paired = precision != "float32" and all(key in each for each in occasions for key in plain)
    seconds, factors = [f"{name}, s" for name in yardsticks], [f"over {name}" for name in yardsticks]
    more = [*(["over ours in float32"] if paired else []), *(["floor, %"] if floors else [])]
    head = [*HEAD, *seconds, "ours, s", *factors, *more]
    lines = [head, ["---"] * len(head)]
    for key, other in zip(keys, plain, strict=True):
        rows = [each[key] for each in occasions]
        ours = fastest(rows)
        seconds = [f"{median(row['seconds'][name]['median'] for row in rows):.3f}" for name in (*yardsticks, ours)]
        factors = [between([row["ratio"][ours][name] for row in rows]) for name in yardsticks]
        if paired:
            factors.append(between([over(each[key]) / over(each[other]) for each in occasions]))
        floor = [between([100 * row["of_floor"][ours] for row in rows], digits=0)] if floors else []
        lines.append([key[0], str(key[2]), row_name(key[3]), ours, *seconds, *factors, *floor])
    return markdown(lines)


def over(row):
    """Return how many times as fast as the yardstick the fastest executor of ours is."""
    return row["ratio"][fastest([row])][YARDSTICK]


def phases(occasions):
    """Return the lines of a table of where the time of a round goes, in percent, and what an evaluation adds to it."""
    there = [key for key in occasions[0] if all("phases" in each.get(key, ()) for each in occasions)]
    keys = [key for key in there if key[3] in SHOWN]
    if not keys:
        return []
    names = list(occasions[0][keys[0]]["phases"][fastest([occasions[0][keys[0]]])])
    lines = [["", "precision", "algorithm", *names, "evaluation"], ["---"] * (len(names) + 4)]
    for key in keys:
        rows = [each[key] for each in occasions]
        ours = fastest(rows)
        shares = [median(100 * row["phases"][ours][name] for row in rows) for name in names]
        shares.append(median(100 * row["evaluation"]["share"] for row in rows))
        lines.append([key[0], key[1], row_name(key[3]), *(f"{share:.1f}" for share in shares)])
    return markdown(lines)


def scaling(folder):
    """Return the lines of a table of milliseconds of a round by size, and of one of seeds that train together."""
    tables = []
    rounds, together = scaling_of(folder)
    for head, found, text in (
        (["what", ""], rounds, lambda seconds: f"{1000 * seconds:.0f}"),
        (["seeds"], {(str(seeds),): times for seeds, times in together.items()}, lambda times: f"{times:.2f}"),
    ):
        if found:
            lines = [[*head, *map(row_name, SHOWN)], ["---"] * (len(head) + len(SHOWN))]
            order = list(dict.fromkeys(key[0] for key in found))
            for key in sorted(found, key=lambda key: order.index(key[0])):
                lines.append([*key, *(text(found[key][name]) for name in SHOWN)])
            tables += [*markdown(lines), ""]
    return tables


def markdown(lines):
    """Return rows of cells as the lines of a table."""
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def row_name(algorithm):
    """Return the name that the papers give ``algorithm``."""
    return {"fedavg": "FedAvg", "fedsam": "FedSAM", "scaffold": "SCAFFOLD", "fedsmoo": "FedSMOO"}[algorithm]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("occasions", nargs="+", type=Path, help="folders of reports, one an occasion")
    folders = parser.parse_args().occasions
    occasions = [rows_of(folder) for folder in folders]
    for precision in ("float32", "bfloat16"):
        if lines := table(occasions, precision):
            print(f"{precision}\n", *lines, "", sep="\n")
    if lines := phases(occasions):
        print("shares of a round, %\n", *lines, "", sep="\n")
    for folder in folders:
        if lines := scaling(folder):
            print(f"scaling, {folder.name}: milliseconds of a round; times as fast together\n", *lines, sep="\n")


if __name__ == "__main__":
    main()
