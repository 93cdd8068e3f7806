"""From nothing to a table, and what stands in the files that others rely on."""

import csv
import json
import os
import re
import sys

from project import COLUMN, ROWS, TABLE

RUNS = "results/preview/runs/fedsmoo-cifar10/dir0.6-100"


def test_everything_asked_for_is_made(trained):
    root = trained.root / "results/preview"
    for ending in ("csv", "md", "tex", "html"):
        assert (root / f"tables/{TABLE}.{ending}").stat().st_size > 0
    assert (root / "report.html").read_text().count("FedSMOO") > 0
    with (root / f"tables/{TABLE}.csv").open(newline="") as file:
        cells = list(csv.DictReader(file))
    assert [(cell["column"], cell["row"]) for cell in cells] == [(COLUMN, row) for row in ROWS]
    for cell in cells:
        assert (cell["status"], cell["n"], cell["spread"], cell["difference"]) == ("ok", "1", "", "")
        assert 0 <= float(cell["value"]) <= 1


def test_a_run_says_what_made_it(trained):
    folder = trained.root / RUNS / "fedsmoo/seed1"
    record = json.loads((folder / "run.json").read_text())
    assert record["description"]["algorithm"] == "fedsmoo"
    manifest = json.loads((trained.root / "resources/digits/dataset.json").read_text())
    assert record["dataset_digest"] == manifest["digest"]
    assert record["versions"] == {"engine": 1, "algorithm": 1, "model": 1, "partition": 1}
    with (folder / "metrics.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [int(line["round"]) for line in lines][-1] == record["rounds_done"] == 2
    assert sorted(path.name for path in folder.iterdir()) == ["metrics.csv", "model.safetensors", "run.json"]


def test_logs_and_benchmarks_have_their_places(trained):
    path = "preview/train/fedsmoo-cifar10/dir0.6-100/fedsmoo/seed1"
    assert "round 2/2" in (trained.root / f"logs/{path}.log").read_text()
    assert "max_rss" in (trained.root / f"results/benchmarks/{path}.tsv").read_text()


def test_snakemake_reports_tables_and_figures(project, tmp_path):
    done = project.make("--report", str(tmp_path / "report.html"))
    assert "FlatFed" in (tmp_path / "report.html").read_text(), done.text


def test_a_printed_command_can_be_run_by_hand(trained, tmp_path):
    text = trained.make("--dry-run", "--printshellcmds", "--forcerun", "table").text
    command = next(line for line in text.splitlines() if "flatfed table" in line)
    assert len(command) < 300
    command = command[command.index("python -m") :]
    command = re.sub(r" --out \S+ (.*) > \S+ 2>&1", rf" --out {tmp_path} \1", command)
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    done = trained.call("bash", "-c", command, env={"PYTHONPATH": "src", "PATH": path})
    assert done.returncode == 0, done.stderr
    for ending in ("csv", "md", "tex", "html"):
        made = trained.root / f"results/preview/tables/{TABLE}.{ending}"
        assert (tmp_path / made.name).read_bytes() == made.read_bytes()
