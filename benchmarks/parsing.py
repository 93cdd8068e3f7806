"""How long the configuration and Snakemake's dry runs take, as JSON on standard output.

    PYTHONPATH=src .venv/bin/python benchmarks/parsing.py [--repeats 3]

Each time is the median of some calls, each in a process of its own, interpreter start included: it is what a person
waits. The bounds are those of the house plan; the exit status is 1 if one is not met.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CELL = "cells/fedsmoo2023_T1/cifar10-dir0.6-100/fedsmoo.json"
SNAKEMAKE = (sys.executable, "-m", "snakemake", "--quiet", "all", "--cores", "1", "--dry-run")
LOAD = "import sys; from pathlib import Path; from flatfed import experiment; experiment.load(Path('.')); {check}"
WITHOUT_TORCH = "assert 'torch' not in sys.modules"

#: Name -> (command, seconds allowed).
CASES = {
    "load and validate the configuration": ((sys.executable, "-c", LOAD.format(check=WITHOUT_TORCH)), 1.0),
    "dry run of one cell, preview": ((*SNAKEMAKE, f"results/preview/{CELL}"), 2.0),
    "dry run of one cell, paper": ((*SNAKEMAKE, f"results/paper/{CELL}"), 2.0),
    "dry run of one table, paper": ((*SNAKEMAKE, "results/paper/tables/fedsmoo2023_T1.csv"), 4.0),
    "dry run of everything, paper": ((*SNAKEMAKE, "everything", "--config", "scale=paper"), 12.0),
}


def seconds(command: tuple[str, ...]) -> float:
    """Return the wall time of one call, which must succeed."""
    began = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return time.monotonic() - began


def main() -> int:
    """Measure every case and print the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeats", type=int, default=3, help="calls of each case (default: 3)")
    repeats = options.parse_args().repeats
    figures = {}
    for name, (command, allowed) in CASES.items():
        times = [seconds(command) for _ in range(repeats)]
        median = statistics.median(times)
        figures[name] = {
            "seconds": round(median, 2),
            "all": [round(each, 2) for each in times],
            "allowed": allowed,
            "met": median <= allowed,
        }
    machine = {"python": platform.python_version(), "system": platform.platform(), "cores": os.cpu_count()}
    print(json.dumps({"machine": machine, "times": figures}, indent=1))
    return 0 if all(case["met"] for case in figures.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
