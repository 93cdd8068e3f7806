"""``flatfed plan``: runs counted once, hours and memory of runs that were measured."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pandas as pd
import pytest

import made
from flatfed import cli
from flatfed.commands import configuration, plan_measured, run_folders
from flatfed.commands.plan import forecast
from flatfed.plan import run_specs
from flatfed.runs.record import RunRecord

PROTOCOL, SPLIT = "fedsmoo-cifar10", "dir0.6-100"
COLUMNS = "cifar10-dir0.6-100, cifar10-dir0.6-200"


@pytest.fixture(scope="module")
def experiment():
    return configuration.load(None)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder with a configuration of two columns of one table at paper scale on the CPU, nothing published."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan_measured, "PUBLISHED", tmp_path / "published")
    text = f"scale: paper\ndevice: cpu\ntables:\n  - {{table: fedsmoo2023_T1, columns: [{COLUMNS}]}}\nfigures: []\n"
    Path("config.yaml").write_text(text)
    return tmp_path


def record(run, seconds: float, **changes) -> None:
    """Write the record of a finished run that took so many seconds a round."""
    rounds = run.config.rounds
    about = {
        "rounds_done": rounds, "seconds": seconds * rounds,
        "device": "cpu", "host": {"gpu": None, "processor": "test machine"}, "parameters": 1000,
        "peak_memory_bytes": 3_000_000, "peak_device_memory_bytes": None,
        "settings": run.config.as_json(), **changes,
    }  # fmt: skip
    made.run(run.path, {"round": [about["rounds_done"]]}, **about)


def plan(*arguments: str) -> dict[str, pd.Series]:
    """Return the forecast that the command prints."""
    forecasts = []

    def recorded(options):
        forecasts.append(forecast(options))
        return forecasts[0]

    with mock.patch("flatfed.commands.plan.forecast", recorded):
        assert cli.main(["plan", "--config", "config.yaml", *arguments]) == 0
    return dict(forecasts[0][0].iterrows())


def printed(capsys) -> dict[str, dict[str, str]]:
    """Return the printed table: {name: {head: text}}."""
    head, *lines, _ = (re.split(r"\s{2,}", line) for line in capsys.readouterr().out.splitlines())
    return {name: dict(zip(head[1:], texts, strict=True)) for name, *texts in lines}


def test_the_nearest_measurements_of_a_run(experiment):
    """Of the same protocol only; the algorithm goes before the place, the place before the split."""
    digests = {"dataset_digest": "", "partition_digest": "", "diverged_at": None}

    def run(row, split=SPLIT, protocol=PROTOCOL):
        return run_specs.run(experiment, "paper", protocol, split, row, 1)

    def seconds(one, *known):
        """Return the mean of the nearest of ``known`` (run, seconds, published), NaN without any."""
        records = [(RunRecord(config=past.config, rounds_done=2, seconds=2 * pace, **digests), published)
                   for past, pace, published in known]  # fmt: skip
        measured = pd.DataFrame([plan_measured.measurement(*pair) for pair in records])
        return plan_measured.nearest(one, measured)["seconds"].mean()

    here, published = False, True
    fedavg, fedsam = (run("fedavg"), 1.0, here), (run("fedsam"), 2.0, published)
    assert seconds(run("fedavg"), fedavg, fedsam) == 1.0
    assert seconds(run("fedsam"), fedavg, fedsam) == 2.0, "of the algorithm, though published"
    assert seconds(run("fedsam"), fedavg, fedsam, (run("fedsam", "dir0.6-200"), 3.0, here)) == 3.0, "here"
    assert seconds(run("fedavg", "dir0.6-200"), fedavg, (run("fedavg", "dir0.6-200"), 5.0, here)) == 5.0, "of the split"
    assert seconds(run("fedcm"), fedavg, fedsam) == 1.0, "none of its algorithm: those here"
    assert pd.isna(seconds(run("fedavg", protocol="fedsmoo-cifar100"), fedavg))
    model = dict(reversed(fedavg[0].config.model.as_json().items()))
    reordered = dataclasses.replace(fedavg[0], config=fedavg[0].config.changed(model=model))
    assert len(model) > 1 and seconds(run("fedavg"), (reordered, 4.0, here)) == 4.0, "whatever the order of keys"
    edited = fedavg[0].config.changed(batch_size=7)
    assert pd.isna(seconds(run("fedavg"), (dataclasses.replace(fedavg[0], config=edited), 1.0, here)))


def test_published_runs_count_where_none_is_here(here, experiment, capsys):
    """One that is not finished, too; its seconds a round are those of 800 rounds. Another device's are left out."""
    run = run_specs.run(experiment, "paper", PROTOCOL, SPLIT, "fedavg", 1)
    place = {"device": "cpu", "host": {"gpu": None, "processor": "a CPU"}}
    about = {**place, "seconds": 40.0, "peak_memory_bytes": 5 * 10**6}
    made.so_far("published/p/runs/s/a/seed1", {"round": [10]}, settings=run.config.as_json(), **about)
    gpu = {**about, "seconds": 1.0, "device": "cuda"}
    made.so_far("published/q/runs/s/a/seed1", {"round": [10]}, settings=run.config.as_json(), **gpu)
    total = plan()["total"]
    assert total["hours"] * 3600 == pytest.approx(32 * 800 * 4.0)
    assert (total["memory"], total["unknown"]) == (5 * 10**6, 0)
    assert capsys.readouterr().out.endswith("paper scale, cpu: by a CPU (published)\n")
    record(run_specs.run(experiment, "paper", PROTOCOL, SPLIT, "fedavg", 2), 1.0)
    assert plan()["total"]["hours"] * 3600 == pytest.approx(31 * 800 * 1.0), "a run here goes before"
    Path("published/p/runs/s/a/seed1/run.so-far.json").write_text("{}")
    plan()
    assert "run.so-far.json: not the record of a run" in capsys.readouterr().err


def test_a_plan_by_hand(here, experiment, capsys):
    """Sixteen cells, two seeds: 32 runs. FedAvg's two on 100 clients are done at 1 s a round, one run is of old."""
    for seed in (1, 2):
        record(run_specs.run(experiment, "paper", PROTOCOL, SPLIT, "fedavg", seed), 1.0)
    old = run_specs.run(experiment, "paper", PROTOCOL, SPLIT, "fedcm", 1)
    record(old, 3.0, settings={**old.config.as_json(), "rounds": 10}, peak_memory_bytes=4_000_000)
    begun = run_specs.run(experiment, "paper", PROTOCOL, SPLIT, "feddyn", 1)
    Path(begun.path).mkdir(parents=True)
    Path(begun.path, "checkpoint.part").touch()
    total = plan("--config", "keep_models=all")["total"]
    said = printed(capsys)
    assert (total["cells"], total["runs"]) == (16, 32)
    assert [total[key] for key in ("finished", "begun", "stale", "missing")] == [2, 1, 1, 28]
    # FedCM's took 3 s a round, FedAvg's 1 s; the other rows get the mean of the three.
    by_hand = 800 * (2 * 1.0 + 4 * 3.0 + 24 * (1.0 + 1.0 + 3.0) / 3)
    assert total["hours"] * 3600 == pytest.approx(by_hand)
    assert total["unknown"] == 0
    rest = 160 * 800 + 6000
    model = 4 * 11_181_642
    assert total["disk"] == 32 * (model + rest)
    assert total["memory"] == 4_000_000, "FedCM's"
    assert said["fedsmoo2023_T1"] == said["total"]
    texts = {"cells": "16", "runs": "32", "finished": "2", "begun": "1", "stale": "1", "missing": "28"}
    texts |= {"hours": f"{by_hand / 3600:.2f}", "memory": "4.0 MB", "GPU memory": "-"}
    assert said["total"].items() >= texts.items()
    assert plan()["total"]["disk"] == 32 * rest, "no analysis reads a model"


def test_a_model_that_was_not_kept_is_missing_where_an_analysis_reads_it(here, experiment):
    run = run_specs.run(experiment, "paper", PROTOCOL, SPLIT, "fedavg", 1)
    record(run, 1.0)
    assert (run_folders.state(run), run_folders.state(run, analysed=True)) == ("finished", "missing")
    Path(run.path, "model.safetensors").touch()
    assert run_folders.state(run, analysed=True) == "finished"


def test_runs_that_tables_share_count_once(here, capsys):
    both = plan("fedsmoo2023_T1", "fedsmoo2023_T6")
    assert both["fedsmoo2023_T1"]["runs"] == 32, "the columns that the configuration names"
    assert both["fedsmoo2023_T6"]["runs"] == 128 and both["total"]["runs"] == 32 + 128, "other splits"
    assert both["total"]["cells"] == 16 + 128 and both["total"]["unknown"] == 32 + 128
    assert {(line["hours"], line["memory"]) for line in printed(capsys).values()} == {("-", "-")}
    whole = plan("fedsmoo2023_T1", "fedsmoo2023_T6", "--config", "tables=[fedsmoo2023_T1]")
    assert whole["fedsmoo2023_T1"]["runs"] == whole["total"]["runs"] == 256, "all runs of Table 6 are Table 1's"


def test_figures_are_planned_too_and_an_unknown_name_is_neither(here, capsys):
    both = plan("fedsmoo2023_T1", "fedsmoo2023_F7")
    assert (both["fedsmoo2023_F7"]["cells"], both["fedsmoo2023_F7"]["runs"]) == (0, 64)
    assert both["total"]["runs"] == 32 + 64 - 16, "Figure 7 has runs of Table 1, those of dir0.6-100 too"
    surfaces = plan("fedlesam2024_F3")["total"]
    assert surfaces["disk"] > surfaces["runs"] * 10**6, "a loss surface needs the model"
    capsys.readouterr()
    assert cli.main(["plan", "--config", "config.yaml", "fedsmoo2023_F77"]) == 2
    said = capsys.readouterr().err
    assert "unknown table or figure 'fedsmoo2023_F77'; did you mean 'fedsmoo2023_F7'?" in said
    assert "all 56: config/tables*, config/figures*\n" in said, "29 tables and 28 figures; a name of both, once"


def test_settings_of_execution_make_no_run_stale(here, experiment):
    run = run_specs.run(experiment, "paper", PROTOCOL, SPLIT, "fedavg", 1)
    changes = {"checkpoint_every": 99, "executor": {"cpu": "sequential", "cuda": "sequential"}}
    changes["evaluation"] = {**run.config.evaluation.as_json(), "batch_size": 7}
    record(run, 1.0, settings=run.config.changed(**changes).as_json())
    assert plan()["total"]["finished"] == 1


def test_a_diverged_run_is_there_and_measures_nothing(here, experiment):
    run = run_specs.run(experiment, "paper", PROTOCOL, SPLIT, "fedavg", 1)
    record(run, 1.0, diverged_at=7, rounds_done=6)
    total = plan()["total"]
    assert total["finished"] == 1 and total["unknown"] == 31


@pytest.mark.parametrize(
    ("content", "state"),
    [
        ('{"description": ', "damaged"),
        ("{}", "damaged"),
        ("[]", "damaged"),
        ("", "damaged"),
        (None, "damaged"),
        ('{"description": {}}', "damaged"),
        ({"host": None}, "finished"),
    ],
)
def test_a_damaged_record_is_named_and_the_others_count(here, experiment, capsys, content, state):
    damaged, whole = (run_specs.run(experiment, "paper", PROTOCOL, SPLIT, "fedavg", seed) for seed in (1, 2))
    file = Path(damaged.path, "run.json")
    record(damaged, 1.0, **(content if isinstance(content, dict) else {}))
    if content is None:
        file.unlink()
        file.mkdir()
    elif isinstance(content, str):
        file.write_text(content)
    record(whole, 3.0)
    total = plan()["total"]
    assert (total["finished"], total[state]) == ((2, 2) if state == "finished" else (1, 1))
    assert total["hours"] > 0, "from the run that is whole"
    found = capsys.readouterr()
    assert found.err.count(f"{file}: not the record of a run") == 1 and "Delete it" in found.err


def test_planning_what_was_measured_imports_no_torch(here, experiment):
    record(run_specs.run(experiment, "paper", PROTOCOL, SPLIT, "fedavg", 1), 1.0)
    script = (
        "import sys; from flatfed import cli; cli.main(['plan', '--config', 'config.yaml']); "
        "print('torch' in sys.modules)"
    )
    source = str(Path(cli.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": source}, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "False"
