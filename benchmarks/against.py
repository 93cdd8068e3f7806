"""How many times as fast a round is as an earlier commit's in float32, from reports of processes that took turns.

    python benchmarks/against.py 9f431f1 results/published/rounds/against-9f431f1/*

Each folder is one occasion, its files are reports of ``benchmarks/rounds.py``, in the order of their names: the first
of the earlier commit belongs to the first of each precision of ours, and so on. A factor is the quotient of the two
processes' factors over the yardstick ``resident``, the same code in both, so that what else the machine did in either
is left out. A cell has the least and the largest of all pairs, in bold the median. Needs no torch.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

from ranges import between, markdown, over, reports_of, row_name


def factors_of(folder, earlier):
    """Return {(processor, workload, precision): {algorithm: factors}} of the reports in ``folder``."""
    before, ours, processors = defaultdict(list), defaultdict(list), set()
    for report in reports_of(folder):
        for row in report["rows"]:
            session = report["sessions"][row["session"]]
            if session["commit"].startswith(earlier):
                before[row["workload"], row["algorithm"]].append(over(row))
            else:
                processors.add(session["host"]["processor"])
                ours[row["workload"], row["precision"], row["algorithm"]].append(over(row))
    if not before or not ours or len(processors) > 1:
        sys.exit(f"{folder}: wants reports of {earlier} and of a later commit, made on one processor")
    found = defaultdict(dict)
    for (workload, precision, algorithm), later in ours.items():
        pairs = zip(later, before[workload, algorithm], strict=True)
        found[*processors, workload, precision][algorithm] = [new / old for new, old in pairs]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("earlier", help="the earlier commit")
    parser.add_argument("occasions", nargs="+", type=Path, help="folders of reports, one an occasion")
    options = parser.parse_args()
    rows = defaultdict(lambda: defaultdict(list))
    for folder in options.occasions:
        for key, found in factors_of(folder, options.earlier).items():
            for algorithm, factors in found.items():
                rows[key][algorithm] += factors
    algorithms = list(dict.fromkeys(algorithm for found in rows.values() for algorithm in found))
    head = ["processor", "workload", "precision", "pairs", *map(row_name, algorithms)]
    lines = [head, ["---"] * len(head)]
    for key, found in sorted(rows.items(), key=lambda item: (item[0][1], item[0][2] != "float32", item[0][0])):
        cells = [f"{between(found[each])}, **{median(found[each]):.2f}**" for each in algorithms]
        lines.append([*key, str(len(found[algorithms[0]])), *cells])
    print(*markdown(lines), sep="\n")


if __name__ == "__main__":
    main()
