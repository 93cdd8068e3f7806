"""``flatfed time``: the short run that it times, timing.json, and the cells of a table that read it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import made
from flatfed.engine.job import train as engine
from flatfed.errors import DataError
from flatfed.files import write_sealed
from flatfed.tables.readings import RunReading, read_source
from shipped import EXP

#: Seconds of training at the end of rounds 1 to 4: the first round takes 5, the others 1, 2 and 3.
CLOCK = [5.0, 6.0, 8.0, 11.0]
HOST = {"processor": "a CPU", "gpu": None}
RUN = EXP.run("preview", "fedsmoo-cifar10", "dir0.6-100", "fedavg", 1).config.as_json()
RUN = {
    **{**RUN, "rounds": 800},
    "evaluation": {**RUN["evaluation"], "every": 5},
    "probe": {"every": 1, "images": 8, "rho": 0.1, "m": 4},
}
#: The cell of a row's seconds.
ROW = {"table": "t", "column": "c", "row": "fedavg", "scale": "preview", "metric": "seconds_per_round", "seeds": [1]}
TIMING = Path("timing.json")


@pytest.fixture(autouse=True)
def short(tmp_path, monkeypatch):
    """Have the engine pretend runs with that clock and evaluations of half a second; yield the last run's settings."""
    monkeypatch.chdir(tmp_path)
    settings = {}

    def train(config, dataset, partition, out, *, device, threads, weights, full_model):
        assert full_model, "only some algorithms can leave dead taps out"
        settings.update(config.as_json())
        count = config.rounds
        columns = {"round": range(1, count + 1), "seconds": CLOCK[:count], "clients": [6] * count}
        about = {"diverged_at": settings.get("break"), "seconds_evaluation": 0.5 * count, "peak_memory_bytes": 1}
        about |= {"device": device, "threads": threads, "host": HOST, "parameters": 10, "row": 9}
        made.run(out, columns, settings=settings, executor="stacked", precision="float32", **about)

    monkeypatch.setattr(engine, "train", train)
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    return settings


@pytest.fixture
def timed(call):
    """Yield a function that times a run, by default ``RUN``, and returns timing.json."""

    def timed(settings=RUN, *words):
        place = ("--dataset", ".", "--partition", "p.npz", "--out", TIMING, "--device", "cpu")
        status, _, err = call("time", "--run", json.dumps(settings), *place, *(words or ("--rounds", "3")))
        assert status == 0, err
        return json.loads(TIMING.read_text())

    return timed


def seconds() -> RunReading:
    """Return what a cell of a row's seconds reads of timing.json."""
    (number,) = made.cell_numbers(**ROW, timing=str(TIMING), timed=RUN)
    (reading,) = read_source(number, (), number.timed)
    return reading


def test_the_seconds_of_the_short_run(timed, short):
    """As the official clock: all images are evaluated after every round, and each round has the expected clients."""
    timing = timed()
    assert timing["training_seconds"] == [1.0, 2.0, 3.0] and timing["training_seconds_per_round"] == 2.0
    assert (timing["evaluation_seconds_per_round"], timing["seconds_per_round"]) == (0.5, 2.5)
    assert timing["description"] == RUN, "the run that the seconds are of"
    assert timing["clients"] == 6 and timing["evaluated"] == {"every": 1, "sets": ["test", "train"]}
    assert short["evaluation"].items() >= timing["evaluated"].items()
    assert short["sampling"] == {**RUN["sampling"], "scheme": "fixed"} != RUN["sampling"]
    assert seconds().reading.timing == {"seconds_per_round": 2.5, "training_seconds_per_round": 2.0}
    assert timed(RUN, "--rounds", "2", "--warm-up", "2")["training_seconds"] == [2.0, 3.0]
    assert short["rounds"] == 4 and "probe" not in short


@pytest.mark.parametrize(("load", "cores", "busy"), [(1.4, 2, ""), (73.5, 2, "load 73.5 on 2 cores"), (7, 16, "")])
def test_a_busy_machine_is_noted_in_the_file_and_in_the_cells(timed, monkeypatch, load, cores, busy):
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    warning = timed().get("warning") or ""
    assert bool(warning) == bool(busy) and busy in warning
    assert seconds().warning == (f"{TIMING}: {warning}" if busy else "")


def test_seconds_of_two_machines_are_not_compared(timed):
    base = {"relative": "speedup", "base": "fedsam", "base_timing": "base.json", "base_timed": RUN}
    numbers = {**ROW, "unit": "x", "timing": str(TIMING), "timed": RUN, **base}
    write_sealed("base.json", timing := timed())
    cell = made.summary(**numbers)
    assert (cell.value, cell.timed) == (1.0, ["cpu (a CPU, 1 threads), stacked executor"])
    for other, words in (
        ({"host": {**HOST, "processor": "another CPU"}}, "seconds of cpu (a CPU, 1 threads) and of cpu (another CPU, "),
        ({"threads": 2}, "and of cpu (a CPU, 2 threads) do not compare; time both"),
        ({"device": "cuda", "host": {**HOST, "gpu": "a GPU"}}, "and of cuda (a GPU) do not compare"),
    ):
        write_sealed("base.json", {**timing, **other})
        with pytest.raises(DataError, match=re.escape(words)):
            made.summary(**numbers)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"format": 2}, f"format: unknown .*snakemake --cores 1 -R {TIMING}"),
        ({"seconds_per_round": 0}, f"seconds_per_round: 0 is not .*snakemake --cores 1 -R {TIMING}"),
        (
            {"description": {**RUN, "executor": {"cpu": "sequential", "cuda": "graph"}}},
            r"is of another run than the requested one, by executor\.cpu, executor\.cuda;",
        ),
    ],
)
def test_another_file_in_place_of_a_timing_is_refused(timed, other, words):
    """The timing of a run of an earlier version, which had `checkpoint_every`, is not another one."""
    about = timed({**RUN, "checkpoint_every": 7})
    assert seconds().reading.timing["seconds_per_round"] == 2.5
    write_sealed(TIMING, {**about, **other})
    with pytest.raises(DataError, match=words):
        seconds()
