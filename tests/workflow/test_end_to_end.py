"""From nothing to a table, its log and its benchmark."""

import csv

from project import COLUMN, ROWS, RUNS


def test_everything_asked_for_is_made(trained):
    cells = list(csv.DictReader(trained.table().splitlines()))
    assert [(cell["column"], cell["row"]) for cell in cells] == [(COLUMN, row) for row in ROWS]
    for cell in cells:
        assert (cell["status"], cell["n"], cell["spread"], cell["difference"]) == ("ok", "1", "", "")
        assert 0 <= float(cell["value"]) <= 1
    assert "FedSMOO" in (trained.root / "results/preview/report.html").read_text()
    path = RUNS.removeprefix("results/").replace("/runs/", "/train/") + "/fedsmoo/seed1"
    assert "round 2/2" in (trained.root / f"logs/{path}.log").read_text()
    lines = (trained.root / f"results/benchmarks/{path}.tsv").read_text().splitlines()
    (measured,) = csv.DictReader(lines, delimiter="\t")
    assert float(measured["cpu_time"]) > 0.5 and float(measured["max_rss"]) > 100, "of the training itself"
