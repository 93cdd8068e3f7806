"""``flatfed time``: what timing.json makes of the clock of a short run, and that the cells of a table can read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import made
from flatfed import cli
from flatfed.commands import configuration
from flatfed.engine.job import train as engine
from flatfed.engine.sampling import active_clients
from flatfed.errors import DataError
from flatfed.files import write_sealed
from flatfed.plan import run_specs
from flatfed.runs import record as records
from flatfed.runs import timing as timings
from flatfed.runs.run_config import SamplingSettings
from flatfed.tables import cells
from flatfed.tables.readings import RunReading, read_source

#: Seconds of training at the end of rounds 1 to 4: the first round takes 5, the others 1, 2 and 3.
CLOCK = [5.0, 6.0, 8.0, 11.0]
HOST = {"processor": "a CPU", "gpu": None}


@pytest.fixture
def short(monkeypatch):
    """Have the engine pretend a run with that clock, evaluations taking half a second; return what it is told."""
    told = {}

    def train(config, dataset, partition, out, *, device, threads, weights, full_model):
        assert full_model, "only some algorithms can leave dead taps out"
        told.update(config.as_json())
        rounds = config.rounds
        lines = [f"{number + 1},{CLOCK[number]},6" for number in range(rounds)]
        Path(out, "metrics.csv").write_text("\n".join(["round,seconds,clients", *lines]) + "\n")
        record = {
            "diverged_at": told.get("break"), "seconds_evaluation": 0.5 * rounds, "device": device, "threads": threads,
            "executor": "stacked", "precision": "float32", "host": HOST, "parameters": 10, "row": 9,
            "peak_memory_bytes": 1, "rounds_done": rounds,
        }  # fmt: skip
        digests = {"dataset_digest": made.DIGEST, "partition_digest": made.DIGEST}
        about = records.RunRecord(config=config, **digests, **record)
        records.write(Path(out, "run.json"), about, (Path(out, "metrics.csv"),))

    monkeypatch.setattr(engine, "train", train)
    return told


RUN = run_specs.run(configuration.load(None), "preview", "fedsmoo-cifar10", "dir0.6-100", "fedavg", 1).config.as_json()
RUN = {
    **{**RUN, "rounds": 800, "checkpoint_every": 10},
    "evaluation": {**RUN["evaluation"], "every": 5},
    "probe": {"every": 1, "images": 8, "rho": 0.1, "m": 4},
}


def time(tmp_path, settings=RUN, *more):
    place = ["--dataset", str(tmp_path), "--partition", str(tmp_path / "p.npz"), "--out", str(tmp_path / "timing.json")]
    return cli.main(["time", "--run", json.dumps(settings), *place, "--device", "cpu", *more])


def test_warm_up_is_left_out_and_every_round_ends_with_an_evaluation(tmp_path, short):
    assert time(tmp_path, RUN, "--rounds", "3") == 0
    timing = json.loads((tmp_path / "timing.json").read_text())
    assert timing["training_seconds"] == [1.0, 2.0, 3.0] and timing["training_seconds_per_round"] == 2.0
    assert timing["evaluation_seconds_per_round"] == 0.5, "after every round, though the run evaluates every fifth"
    assert timing["seconds_per_round"] == 2.5
    assert timing["description"] == RUN, "the run that the seconds are of"


def test_what_is_timed_is_what_the_official_clock_runs_over(tmp_path, short):
    """All training and test images after every round, and in each as many clients as independent draws expect."""
    assert RUN["sampling"]["scheme"] == "bernoulli" and RUN["evaluation"]["sets"] == ["test"]
    time(tmp_path, RUN, "--rounds", "3")
    assert (short["evaluation"]["every"], short["evaluation"]["sets"]) == (1, ["test", "train"])
    assert short["sampling"] == {**RUN["sampling"], "scheme": "fixed"}
    drawn = active_clients(SamplingSettings(**short["sampling"]), RUN["partition"]["clients"], 1, 0)
    assert len(drawn) == round(RUN["sampling"]["fraction"] * RUN["partition"]["clients"])
    timing = json.loads((tmp_path / "timing.json").read_text())
    assert timing["clients"] == 6 and timing["evaluated"] == {"every": 1, "sets": ["test", "train"]}


def test_the_short_run_writes_no_checkpoint_and_probes_nothing(tmp_path, short):
    assert time(tmp_path, RUN, "--rounds", "2", "--warm-up", "2") == 0
    assert short["rounds"] == 4 and short["checkpoint_every"] > 4 and "probe" not in short
    assert json.loads((tmp_path / "timing.json").read_text())["training_seconds"] == [2.0, 3.0]


#: The cell of a row's seconds.
ROW = {"table": "t", "column": "c", "row": "fedavg", "scale": "preview", "metric": "seconds_per_round", "seeds": [1]}


def seconds(path: Path) -> list[RunReading]:
    """Return what a cell of a row's seconds reads of the timing ``path``."""
    (number,) = made.cell_numbers(**ROW, unit="s", timing=str(path), timed=RUN)
    return read_source(number, (), number.timed)


def test_a_cell_reads_it(tmp_path, short):
    time(tmp_path, RUN, "--rounds", "3")
    (one,) = seconds(tmp_path / "timing.json")
    assert one.reading.timing == {"seconds_per_round": 2.5, "training_seconds_per_round": 2.0}
    assert (one.timing.machine, one.timing.executor) == ("cpu (a CPU, 1 threads)", "stacked")


@pytest.mark.parametrize(("load", "cores", "busy"), [(1.4, 2, None), (73.5, 2, "load 73.5 on 2 cores"), (7, 16, None)])
def test_a_busy_machine_is_told_in_the_file_and_in_the_cells(tmp_path, short, monkeypatch, capsys, load, cores, busy):
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    time(tmp_path, RUN, "--rounds", "3")
    (one,) = seconds(tmp_path / "timing.json")
    if busy is None:
        assert one.warning == "" and timings.read(tmp_path / "timing.json").warning is None
    else:
        assert one.warning.startswith(str(tmp_path)) and busy in one.warning and busy in capsys.readouterr().err


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({}, ""),
        ({"host": {**HOST, "processor": "another CPU"}}, "seconds of cpu (a CPU, 1 threads) and of cpu (another CPU, "),
        ({"threads": 2}, "seconds of cpu (a CPU, 1 threads) and of cpu (a CPU, 2 threads) do not compare; time both"),
        ({"device": "cuda", "host": {**HOST, "gpu": "a GPU"}}, "and of cuda (a GPU) do not compare"),
    ],
    ids=["the same", "CPU", "threads", "device"],
)
def test_seconds_of_two_machines_are_not_compared(tmp_path, short, other, said):
    """A row's seconds against a base row's that were measured elsewhere would be a ratio of machines."""
    time(tmp_path, RUN, "--rounds", "3")
    timing = json.loads((tmp_path / "timing.json").read_text())
    write_sealed(tmp_path / "base.json", {**timing, **other})
    spec = made.cell_numbers(
        **{**ROW, "unit": "x", "relative": "speedup", "base": "fedsam", "timing": str(tmp_path / "timing.json")},
        **{"base_timing": str(tmp_path / "base.json"), "timed": RUN, "base_timed": RUN},
    )
    if not said:
        cell = cells.summarise(spec)
        assert cell.value == 1.0 and cell.timed == ["cpu (a CPU, 1 threads), stacked executor"]
        return
    with pytest.raises(DataError) as problem:
        cells.summarise(spec)
    assert said in str(problem.value)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"format": 2}, "format: unknown value 2; known: 4"),
        ({"host": None}, "host: null is nothing (null); expected a mapping"),
        ({"seconds_per_round": 0}, "seconds_per_round: 0 is not allowed; expected greater than 0"),
    ],
    ids=["an earlier version's", "no host", "no seconds"],
)
def test_seconds_of_something_else_are_refused(tmp_path, short, other, said):
    time(tmp_path, RUN, "--rounds", "3")
    path = tmp_path / "timing.json"
    write_sealed(path, {**json.loads(path.read_text()), **other})
    with pytest.raises(DataError) as problem:
        seconds(path)
    assert said in str(problem.value) and f"snakemake --cores 1 -R {path}" in str(problem.value)


def test_checkpoints_change_no_seconds_and_the_executor_does(tmp_path, short):
    time(tmp_path, {**RUN, "checkpoint_every": 7}, "--rounds", "3")
    assert seconds(tmp_path / "timing.json")[0].reading.timing["seconds_per_round"] == 2.5
    time(tmp_path, {**RUN, "executor": {"cpu": "sequential", "cuda": "graph"}}, "--rounds", "3")
    with pytest.raises(DataError, match=r"is of another run than the requested one, by executor\.cpu, executor\.cuda;"):
        seconds(tmp_path / "timing.json")


def test_a_run_that_diverges_has_no_seconds(tmp_path, short, capsys):
    assert time(tmp_path, {**RUN, "break": 2}, "--rounds", "3") == 2
    assert "diverged in round 2" in capsys.readouterr().err and not (tmp_path / "timing.json").exists()
