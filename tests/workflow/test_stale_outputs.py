"""Seals show stale outputs, also without Snakemake's records; a run that is not the requested one stops its table."""

import re
import shutil

from project import COLUMN, ROWS, RUNS, TABLE, contents

PREVIEW = "results/preview"
FIGURE = "fedsmoo2023_F5"  # of partitions: nothing to train
CELL = f"{PREVIEW}/cells/{TABLE}/{COLUMN}/fedavg.json"
TARGETS = ("--", "all", CELL)
FILES = [
    *(f"{PREVIEW}/tables/{TABLE}.md", f"{PREVIEW}/figures/{FIGURE}.png", f"{PREVIEW}/report.html"),
    *("results/errata.html", CELL),
]
REFUSED = "learning_rate is 0.1, here 0.05; remove the run's folder, and the next call trains the run again"
NUMBER = ("0.6,100,0.1,fedavg,,,79.52,", "0.6,100,0.1,fedavg,,,79.25,")


def test_stale_outputs_are_rebuilt_and_stale_runs_are_refused(project):
    runs = contents(project.root / RUNS)
    project.edit_yaml("config/config.yaml", lambda config: config.update(figures=[FIGURE]))
    project.make(*TARGETS)
    made = [(project.root / path).read_bytes() for path in FILES]
    shutil.rmtree(project.root / ".snakemake")
    assert project.planned(*TARGETS) == {}, "seals are enough"

    for path in FILES:
        (project.root / path).write_bytes(b"")
    project.edit(f"config/reference/{TABLE}.csv", NUMBER)
    text = project.make("--dry-run", *TARGETS).text
    assert "settings, numbers, code or files changed" in text
    jobs = set(re.findall(r"(?m)^(\w+) +1$", text))
    assert jobs == {"all", "cell", "errata", "figure", "report", "table"}

    for path, content in zip(FILES, made, strict=True):
        (project.root / path).write_bytes(content)
    project.preview(learning_rate=0.05)
    text = project.refused("--", FILES[0], CELL)
    assert "Train " not in text
    lines = (project.root / f"logs/preview/table/{TABLE}.log").read_text().splitlines()
    assert [line.partition("run.json: not the requested run: ")[2] for line in lines] == [REFUSED] * len(ROWS), lines
    assert [(project.root / path).read_bytes() for path in FILES] == made, "the old files stay"
    assert contents(project.root / RUNS) == runs
