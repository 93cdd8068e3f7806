"""Seconds of loading the configuration and of Snakemake's dry runs; JSON.

    PYTHONPATH=src .venv/bin/python benchmarks/parsing.py

Each is the median of three processes, including the start of the interpreter. Exit status 1 if a limit is exceeded.
"""

from __future__ import annotations

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
LOAD = "import sys; from flatfed import experiment; experiment.load('.'); assert 'torch' not in sys.modules"
REPEATS = 3

#: Case -> (command, limit in seconds).
CASES = {
    "load and validate the configuration": ((sys.executable, "-c", LOAD), 1.0),
    "dry run of one cell, preview": ((*SNAKEMAKE, f"results/preview/{CELL}"), 2.0),
    "dry run of one cell, paper": ((*SNAKEMAKE, f"results/paper/{CELL}"), 2.0),
    "dry run of one table, paper": ((*SNAKEMAKE, "results/paper/tables/fedsmoo2023_T1.csv"), 4.0),
    "dry run of everything, paper": ((*SNAKEMAKE, "everything", "--config", "scale=paper"), 12.0),
}


def seconds(command: tuple[str, ...]) -> float:
    began = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return time.monotonic() - began


def main() -> int:
    figures = {}
    for name, (command, limit) in CASES.items():
        times = [seconds(command) for _ in range(REPEATS)]
        median = statistics.median(times)
        figures[name] = {
            "seconds": round(median, 2),
            "all": [round(value, 2) for value in times],
            "allowed": limit,
            "met": median <= limit,
        }
    machine = {"python": platform.python_version(), "system": platform.platform(), "cores": os.cpu_count()}
    print(json.dumps({"machine": machine, "times": figures}, indent=1))
    return 0 if all(case["met"] for case in figures.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
