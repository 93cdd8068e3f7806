"""Every command that takes tables, on every table of config/tables, at both scales: an answer, and never a trace."""

import json
from pathlib import Path

import pandas as pd
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
SAMPLE = ("dfedsam2023_T1", "fedsmoo2023_T2", "fedsmoo2023_T4", "fedsmoo2023_T6")


@pytest.fixture(scope="module")
def experiment():
    return configuration.load([f"tables={json.dumps(TABLES)}"])


@pytest.fixture
def here(experiment, tmp_path, monkeypatch):
    """An empty folder, in which the commands see FlatFed's own configuration with all tables whole, read once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(configuration, "load", lambda path: experiment)
    return tmp_path


def forecast(*words: str) -> pd.DataFrame:
    return plan.forecast(cli.parser(["plan"]).parse_args(["plan", *words]))[0].T


@pytest.mark.parametrize("table", sampled(TABLES, SAMPLE))
def test_every_command_answers_for_every_table(here, experiment, capsys, table):
    for scale in experiment.tables[table].document.scales or SCALES:
        cells = made.first_numbers(experiment, scale, table)
        runs = made.table_runs(experiment, scale, table)
        where = [table, "--scale", scale]
        assert cli.main(["status", *where]) == 0
        said = capsys.readouterr().out
        waiting = sum(bool(inputs([number])) for number in cells)
        counts = {"done (#)": len(cells) - waiting, "waiting (.)": waiting}
        parts = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        assert f"{table}, {scale} scale: {len(cells)} cells: {parts}\n" in said
        assert said.splitlines()[-1] == f"{len(runs)} of {len(runs)} runs to make"
        total = forecast(*where)[table]
        assert (total["cells"], total["runs"], total["missing"]) == (len(cells), len(runs), len(runs))
        assert cli.main(["verify", *where]) == 0
        assert f"{table}, {scale} scale: " in capsys.readouterr().out


@pytest.mark.parametrize("table", sampled(TABLES, SAMPLE))
def test_what_stands_in_results_does_not_stop_a_table(here, experiment, capsys, table):
    """Every file that a table could read is there and is none: cut, of another kind, or a folder."""
    contents = [b'{"description": ', b"{}", b"[]", b"null", bytes(range(256)), None]
    scale = (experiment.tables[table].document.scales or ["preview"])[0]
    runs = made.table_runs(experiment, scale, table)
    kinds = ["run.json", "metrics.csv", "progress.json", ".lock"]
    for place, run in enumerate(runs[:24]):
        put(Path(run.path, kinds[place // 6]), contents[place % 6])
        put(Path(f"logs/{scale}/train", *Path(run.path).parts[-4:]).with_suffix(".log"), contents[place % 6])
    others = sorted(
        {file for file in inputs(numbers(experiment, scale, table)) if "/analysis/" in file}
    )
    for place, file in enumerate(others[:6]):
        put(Path(file), contents[place])
    damaged = len(runs[:6])
    assert cli.main(["status", table, "--scale", scale]) == 0
    said = capsys.readouterr()
    assert said.out.count("run.json: not the record of a run; delete it to train the run again") == damaged
    assert forecast(table, "--scale", scale)["total"]["damaged"] == damaged
    capsys.readouterr()
    assert cli.main(["verify", table, "--scale", scale]) == (2 if damaged or others else 0)
    assert capsys.readouterr().err.count("run.json: not the record of a run") == damaged


@pytest.mark.parametrize("command", ["status", "plan", "verify"])
def test_a_file_in_place_of_results_is_said(here, capsys, command):
    Path("results").write_text("text")
    status = cli.main([command, TABLES[0]])
    assert status in (0, 2)
    assert "Traceback" not in capsys.readouterr().err


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
