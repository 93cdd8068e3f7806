"""Two trainings at once: each has a GPU of its own and a bar, and Snakemake's lines stay whole above the bars."""

import re
from collections import Counter
from pathlib import Path

from project import RUNS, SNAKEMAKE, clean, log_of

from screen import shown

ROWS = ("fedavg", "fedsam")
NAMED = [f"{RUNS}/{row}/seed1/run.json" for row in ROWS]
CHOICE = '    if name == "cuda" and not torch'
PICKED = """    import sys

    print("SEES", os.environ["CUDA_VISIBLE_DEVICES"], "FOR", name, file=sys.stderr)
    return torch.device("cpu")
"""


def test_two_trainings_at_once_have_a_bar_and_a_gpu_each(project):
    """The two GPUs do not exist: a training writes down what it asks torch for, and takes the CPU instead."""
    project.edit("src/flatfed/engine/job/machine.py", (CHOICE, PICKED + CHOICE))
    project.preview(rounds=60)
    for run in NAMED:
        (project.root / run).unlink()
    environment = clean() | {"TERM": "xterm", "CUDA_VISIBLE_DEVICES": "4,6"}
    del environment["COLUMNS"]
    status, screen = shown([*SNAKEMAKE, "--cores", "2", *NAMED], columns=140, cwd=project.root, env=environment)
    assert status == 0, screen.text
    bar = r"(?m)^fedsmoo-cifar10/\S+/{}/seed1 +\d+%\|.*\| \d+/60  test [\d.]+ %  [\d.e-]+ s a round  \d+ s left$"
    assert any(all(re.search(bar.format(row), state) for row in ROWS) for state in screen.seen)
    assert 'gpu=Resource("gpu", 2)' in screen.text and "there is no GPU here" not in screen.text
    # Snakemake's own log file holds the same lines: none was broken on the terminal, and no bar is left.
    log = re.search(r"Complete log\(s\): (\S+)", screen.text)[1]
    # Snakemake reads the clock once for each of the two.
    texts = (re.sub(r"(?m)^\[.* \d{4}\]$", "[time]", text) for text in (Path(log).read_text(), screen.text))
    logged, seen = (Counter(filter(None, text.splitlines())) for text in texts)
    assert {**(logged - seen)} == {}, screen.text
    assert [line[:30] for line in seen - logged] == ["Using workflow specific profil"]
    logs = [(project.root / log_of(f"{RUNS}/{row}/seed1")).read_text() for row in ROWS]
    assert sorted(re.findall(r"SEES (\S+) FOR cuda", "".join(logs))) == ["4", "6"]
