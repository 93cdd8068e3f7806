"""``status``, ``plan`` and ``verify`` of every table of config/tables, at both scales, also next to damaged files."""

import json
from pathlib import Path

import pytest

import made
from flatfed import cli
from flatfed.commands import configuration, plan
from flatfed.plan import SCALES
from flatfed.plan.number import inputs
from flatfed.plan.numbers import numbers
from repository import ROOT
from samples import sampled

TABLES = sorted(path.stem for path in (ROOT / "config/tables").glob("*.yaml"))
SAMPLE = ("dfedsam2023_T1", "fedsmoo2023_T2")
DAMAGED = [b'{"description": ', b"{}", b"[]", b"null", bytes(range(256)), None]


@pytest.fixture(scope="module")
def experiment():
    return configuration.load([f"tables={json.dumps(TABLES)}"])


@pytest.fixture(autouse=True)
def here(experiment, tmp_path, monkeypatch):
    """An empty folder, in which the commands see FlatFed's own configuration with all tables, loaded once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(configuration, "load", lambda path: experiment)


def forecast(*words):
    return plan.forecast(cli.parser(["plan"]).parse_args(["plan", *words]))[0].T


@pytest.mark.parametrize("table", sampled(TABLES, SAMPLE))
def test_every_command_answers_for_every_table(experiment, call, table):
    for scale in experiment.tables[table].document.scales or SCALES:
        cells = made.first_numbers(experiment, scale, table)
        runs = len(made.table_runs(experiment, scale, table))
        status, out, _ = call("status", table, "--scale", scale)
        waiting = sum(bool(inputs([number])) for number in cells)
        counts = {"done (#)": len(cells) - waiting, "waiting (.)": waiting}
        parts = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        assert status == 0 and f"{table}, {scale} scale: {len(cells)} cells: {parts}\n" in out
        assert out.splitlines()[-1] == f"{runs} of {runs} runs to make"
        total = forecast(table, "--scale", scale)["total"]  # of the table, and of a figure of its name
        assert (total["cells"], total["runs"], total["missing"]) == (len(cells), runs, runs)
        status, out, _ = call("verify", table, "--scale", scale)
        assert status == 0 and f"{table}, {scale} scale: " in out


@pytest.mark.parametrize("table", sampled(TABLES, SAMPLE[-1:]))
def test_damaged_files_do_not_stop_the_commands(experiment, call, table):
    """Files that the table reads are cut, of another kind, or folders."""
    scale = (experiment.tables[table].document.scales or ["preview"])[0]
    runs = made.table_runs(experiment, scale, table)[:24]
    for index, run in enumerate(runs):
        name = ("run.json", "metrics.csv", "run.so-far.json", ".lock")[index // 6]
        put(Path(run.path, name), DAMAGED[index % 6])
        put(Path(run.log("train")), DAMAGED[index % 6])
    analyses = [file for file in inputs(numbers(experiment, scale, table)) if "/analysis/" in file]
    for file, content in zip(sorted(set(analyses)), DAMAGED, strict=False):
        put(Path(file), content)
    damaged = len(runs[:6])
    status, out, _ = call("status", table, "--scale", scale)
    assert status == 0 and out.count("run.json: not the record of a run; delete it to train the run again") == damaged
    assert forecast(table, "--scale", scale)["total"]["damaged"] == damaged
    status, _, err = call("verify", table, "--scale", scale)
    assert status == (2 if damaged or analyses else 0) and err.count("run.json: not the record of a run") == damaged


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
