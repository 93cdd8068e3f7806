"""A run that diverges: recorded with its round, shown in the table, and nothing crashes or is tried again."""

import csv
import json

from project import ROWS, TABLE

FOLDER = "results/preview/runs/fedsmoo-cifar10/dir0.6-100/fedsam/seed1"
LOG = "logs/preview/train/fedsmoo-cifar10/dir0.6-100/fedsam/seed1.log"


def table(project, ending):
    return (project.root / f"results/preview/tables/{TABLE}.{ending}").read_text()


def test_its_cell_says_so_and_the_others_stay(project):
    before = {line["row"]: line for line in csv.DictReader(table(project, "csv").splitlines())}
    project.edit_yaml(
        "config/protocols/fedsmoo-cifar10.yaml",
        lambda protocol: protocol["preview"].setdefault("algorithms", {}).update(fedsam={"learning_rate": 1e6}),
    )
    done = project.make()
    assert "Traceback" not in done.text and "Trying to restart" not in done.text
    assert f"Diverged:\n  {FOLDER}: diverged in round 1; tables report it\n" in done.text
    record = json.loads((project.root / FOLDER / "run.json").read_text())
    assert (record["diverged_at"], record["rounds_done"]) == (1, 0)
    assert len((project.root / FOLDER / "metrics.csv").read_text().splitlines()) == 1, "no round is counted"
    assert "diverged at round 1: " in (project.root / LOG).read_text()
    cells = {line["row"]: line for line in csv.DictReader(table(project, "csv").splitlines())}
    assert (cells["fedsam"]["status"], cells["fedsam"]["value"], cells["fedsam"]["difference"]) == ("diverged", "", "")
    assert {row: cells[row] for row in ROWS if row != "fedsam"} == {row: before[row] for row in ROWS if row != "fedsam"}
    for ending in ("md", "tex", "html"):
        assert "Of 4 cells: 1 diverged (a run ended in non-finite numbers)." in table(project, ending)
    assert "diverged" in next(line for line in table(project, "md").splitlines() if line.startswith("| FedSAM "))
    assert project.planned() == {}, "it has an end like any other run"
