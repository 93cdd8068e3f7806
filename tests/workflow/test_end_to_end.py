"""From nothing to a table, its log and its benchmark; the printed command of a job."""

import csv
import re

from project import COLUMN, ROWS, RUNS, TABLE

from samples import full


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


@full
def test_a_printed_command_can_be_run_by_hand(trained, tmp_path):
    text = trained.make("--dry-run", "--printshellcmds", "--forcerun", "table").text
    command = next(line for line in text.splitlines() if "flatfed table" in line)
    assert len(command) < 300
    command = command[command.index("python -m") :]
    trained.by_hand(re.sub(r" --out \S+ > \S+ 2>&1", rf" --out {tmp_path}", command))
    for ending in ("csv", "md", "tex", "html"):
        assert (tmp_path / f"{TABLE}.{ending}").read_text() == trained.table(ending)
