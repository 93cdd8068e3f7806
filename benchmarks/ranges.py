"""The tables of docs/performance.md from reports of several occasions: seconds of a round, and factors.

    python benchmarks/ranges.py results/published/rounds/epyc-25-17/*

Each folder is one occasion, its files are reports of ``benchmarks/rounds.py``. Seconds are medians of the occasions'
medians; a factor is the least and the largest of the occasions', whose own are medians over turns. Needs no torch.
"""

import argparse
import json
from pathlib import Path
from statistics import median

HEAD = ["", "threads", "algorithm", "executor"]


def rows_of(folder):
    """Return {(workload, precision, threads, algorithm): row} of the reports in ``folder``."""
    found = {}
    for file in sorted(folder.glob("*.json")):
        report = json.loads(file.read_text())
        for row in report["rows"]:
            if row["kind"] == "round":
                peak = report["sessions"][row["session"]]["peak"]
                if peak.get("products", "float32") != row["precision"]:  # a floor of products in another format is none
                    del row["of_floor"]
                found[row["workload"], row["precision"], row["threads"], row["algorithm"]] = row
    if not found:
        raise SystemExit(f"{folder}: no report of benchmarks/rounds.py in it")
    return found


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
    seconds, factors = [f"{name}, s" for name in yardsticks], [f"over {name}" for name in yardsticks]
    head = [*HEAD, *seconds, "ours, s", *factors, *(["floor, %"] if floors else [])]
    lines = [head, ["---"] * len(head)]
    for key in keys:
        rows = [each[key] for each in occasions]
        ours = fastest(rows)
        seconds = [f"{median(row['seconds'][name]['median'] for row in rows):.3f}" for name in (*yardsticks, ours)]
        factors = [between([row["ratio"][ours][name] for row in rows]) for name in yardsticks]
        floor = [between([100 * row["of_floor"][ours] for row in rows], digits=0)] if floors else []
        lines.append([key[0], str(key[2]), row_name(key[3]), ours, *seconds, *factors, *floor])
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def row_name(algorithm):
    """Return the name that the papers give ``algorithm``."""
    return {"fedavg": "FedAvg", "fedsam": "FedSAM", "scaffold": "SCAFFOLD", "fedsmoo": "FedSMOO"}[algorithm]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("occasions", nargs="+", type=Path, help="folders of reports, one an occasion")
    occasions = [rows_of(folder) for folder in parser.parse_args().occasions]
    for precision in ("float32", "bfloat16"):
        if lines := table(occasions, precision):
            print(f"{precision}\n", *lines, "", sep="\n")


if __name__ == "__main__":
    main()
