"""Snakemake on a terminal: two trainings at once have a bar each, and Snakemake's own lines stay whole above them."""

import os
import re
import sys
from collections import Counter
from pathlib import Path

from project import SPLIT

from screen import shown

RUNS = [f"results/preview/runs/fedsmoo-cifar10/{SPLIT}/{row}/seed1" for row in ("fedavg", "fedsam")]


def test_two_trainings_at_once_have_a_bar_each(project):
    project.edit_yaml("config/protocols/fedsmoo-cifar10.yaml", lambda protocol: protocol["preview"].update(rounds=60))
    for run in RUNS:
        (project.root / run / "run.json").unlink()
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *(f"{run}/run.json" for run in RUNS)]
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "COLUMNS")}
    environment["TERM"] = "xterm"
    status, screen = shown(command, columns=140, cwd=project.root, env=environment)
    assert status == 0, screen.text
    bar = r"(?m)^fedsmoo-cifar10/\S+/{}/seed1 +\d+%\|.*\| \d+/60  test [\d.]+ %  [\d.e-]+ s a round  \d+ s left$"
    assert any(all(re.search(bar.format(row), state) for row in ("fedavg", "fedsam")) for state in screen.seen)
    # Snakemake's own log file holds the same lines: none was broken on the terminal, and no bar is left.
    log = re.search(r"Complete log\(s\): (\S+)", screen.text)[1]
    # Snakemake reads the clock once for each of the two.
    texts = (re.sub(r"(?m)^\[.* \d{4}\]$", "[time]", text) for text in (Path(log).read_text(), screen.text))
    logged, seen = (Counter(filter(None, text.splitlines())) for text in texts)
    assert not logged - seen
    assert [line[:30] for line in seen - logged] == ["Using workflow specific profile"[:30]]
