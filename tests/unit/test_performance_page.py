"""The numbers of docs/performance.md are those of the published reports."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
IMAGES = ("--protocol", "fedsmoo-cifar10~cnn", "--scale", "paper", "--data", "resources/cifar10", "--floor", "threads")


def rows_printed(script, *arguments):
    """Return the cells of each row of the tables that a script of benchmarks/ prints."""
    command = [sys.executable, f"benchmarks/{script}.py", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return rows_of(done.stdout)


def rows_of(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]


def test_the_ratios_are_those_of_the_published_reports():
    head, *rows = [row for row in rows_of(PAGE) if len(row) == 7]
    ratios = {(*row[:3], name): ratio for row in rows for name, ratio in zip(head[3:], row[3:], strict=True)}
    compared = 0
    for row in rows_printed("ranges", *sorted((ROOT / "results/published/rounds/epyc-25-17").iterdir())):
        if row[0] == "":
            columns, precision = row, "bfloat16" if "autocast, s" in row else "float32"
            continue
        for column, ratio in zip(columns, row, strict=True):
            if column.startswith("over ") and row[0] != "---":
                other = column.removeprefix("over ").replace("ours in ", "FlatFed, ")
                assert ratios[row[0], precision, other, row[2]] == ratio
                compared += 1
    assert compared == 72


def test_the_differences_of_precision_are_those_of_the_records():
    for words, record in (((), "preview"), (IMAGES, "cnn")):
        rows = rows_printed("precision", *words, "--record", f"results/published/precision/{record}.csv")
        (pooled,) = (row for row in rows if "40 differences" in row)
        assert f"| {pooled[-2]} | {pooled[-1]} |" in PAGE
