"""The tables of docs/performance.md are those of the published reports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROUNDS = ROOT / "results/published/rounds"


def printed(script, *arguments):
    command = [sys.executable, f"benchmarks/{script}.py", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def test_the_page_has_what_the_published_reports_have():
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8").splitlines()
    scaled = printed("ranges", ROUNDS / "epyc-26-2").partition("scaling, ")[2]
    occasions = printed("ranges", *sorted((ROUNDS / "epyc-25-17").iterdir()))
    earlier = printed("against", "9f431f1", *sorted((ROUNDS / "against-9f431f1").iterdir()))
    for shown, least in ((scaled, 18), (occasions, 48), (earlier, 6)):
        table = [line for line in shown.splitlines() if line.startswith("|")]
        assert len(table) >= least
        assert [line for line in table if line not in page] == []


IMAGES = ("--protocol", "fedsmoo-cifar10~cnn", "--scale", "paper", "--data", "resources/cifar10", "--floor", "threads")


@pytest.mark.parametrize(("words", "record"), [((), "preview"), (IMAGES, "cnn")])
def test_the_page_has_the_table_of_each_record_of_precision(words, record):
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    command = [*words, "--record", f"results/published/precision/{record}.csv"]
    table = [line for line in printed("precision", *command).splitlines() if line.startswith("|")]
    assert len(table) == 12
    assert [line for line in table if line not in page.splitlines()] == []
    assert " ".join(command) in " ".join(page.split())
