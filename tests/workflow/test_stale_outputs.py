"""Copied results, without Snakemake's records: seals next to tables, figures and pages show which are stale."""

import shutil

from project import COLUMN, ROWS, TABLE

PREVIEW = "results/preview"
FIGURE = "fedsmoo2023_F5"  # of partitions: nothing to train
CELL = f"{PREVIEW}/cells/{TABLE}/{COLUMN}/fedavg.json"
TARGETS = ("--", "all", CELL)
JOBS = {"table": f"{PREVIEW}/tables", "cell": CELL, "figure": f"{PREVIEW}/figures", "report": f"{PREVIEW}/report.html"}
FILES = [
    *(f"{PREVIEW}/tables/{TABLE}.md", f"{PREVIEW}/figures/{FIGURE}.png", f"{PREVIEW}/report.html"),
    *("results/errata.html", CELL),
]
PROTOCOL = "config/protocols/fedsmoo-cifar10.yaml"
REFUSED = "learning_rate is 0.1, here 0.05; remove the run's folder, and the next call trains the run again"
NUMBER = ("0.6,100,0.1,fedavg,,,79.52,", "0.6,100,0.1,fedavg,,,79.25,")


def test_stale_outputs_are_rebuilt_and_stale_runs_are_refused(project):
    files = [project.root / path for path in FILES]
    runs = {path: path.read_bytes() for path in (project.root / PREVIEW / "runs").rglob("seed1/*")}
    project.edit_yaml("config/config.yaml", lambda config: config.update(figures=[FIGURE]))
    project.make(*TARGETS)
    made = [path.read_bytes() for path in files]
    shutil.rmtree(project.root / ".snakemake")
    for path in files:
        path.write_bytes(b"")
    assert project.planned("--rerun-triggers", "mtime", *TARGETS) == {command: {out} for command, out in JOBS.items()}
    done = project.make(*TARGETS)
    assert "settings, numbers, code or files changed" in done.text
    assert [path.read_bytes() for path in files] == made
    shutil.rmtree(project.root / ".snakemake")

    project.edit(f"config/reference/{TABLE}.csv", NUMBER)
    project.edit_yaml(PROTOCOL, lambda protocol: protocol["preview"].update(learning_rate=0.05))
    done = project.snakemake(*TARGETS)
    assert done.returncode != 0 and "Train " not in done.text
    lines = (project.root / f"logs/preview/table/{TABLE}.log").read_text().splitlines()
    assert [line.partition("run.json: not the requested run: ")[2] for line in lines] == [REFUSED] * len(ROWS), lines
    assert [path.read_bytes() for path in files] == made, "the old files stay"

    project.edit_yaml(PROTOCOL, lambda protocol: protocol["preview"].pop("learning_rate"))
    project.make(*TARGETS)
    assert ",0.7925," in (project.root / f"{PREVIEW}/tables/{TABLE}.csv").read_text()
    assert {path: path.read_bytes() for path in runs} == runs
    shutil.rmtree(project.root / ".snakemake")
    assert "Nothing to be done" in project.make(*TARGETS).text
