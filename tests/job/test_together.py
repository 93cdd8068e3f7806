"""Seeds as rows: several seeds in one process are each what it would be alone."""

from __future__ import annotations

import csv
import gc
import json
import os
import signal
import weakref

import pytest
import torch
from tape import Tape

from flatfed import algorithms
from flatfed.engine.job import interruption, together
from flatfed.engine.job.together import train_together
from flatfed.engine.job.train import train
from flatfed.engine.local_update import LocalUpdate
from flatfed.engine.memory import shortage
from flatfed.engine.simulation import Simulation
from flatfed.engine.speed import seeds
from flatfed.engine.speed.recording import Recorded
from flatfed.errors import DataError
from harness import DROPOUT, dealt_to, description, full_rows, needs, simulation, sizes, write_problem
from samples import FEW, sampled

NAMES = algorithms.names()
SEEDS = (3, 4, 5)
NODES = {"evaluation": {"every": 1, "sets": ["test", "nodes"], "batch_size": 7}}


def spec_of(name: str, seed: int, **changes) -> dict:
    rho = {"rho": 0.3} if "rho" in algorithms.load(name).parameters() else {}
    return description(name, rho, **{**needs(name), "rounds": 3, **NODES, **changes, "seed": seed})


def alone(folder, specs: list[dict], executor: str) -> list:
    runs = [simulation(folder, spec, executor) for spec in specs]
    for run in runs:
        run.lines = [run.advance() for _ in range(run.description["rounds"])]
    return runs


def side_by_side(folder, specs: list[dict], executor: str, tape: Tape | None = None) -> list:
    runs = [simulation(folder, spec, executor) for spec in specs]
    if tape is not None:
        runs[0].local_update = Recorded(runs[0].local_update.plain, tape)

    def work(run):
        def rounds(meeting):
            run.local_update = seeds.Joined(run.local_update, meeting)
            run.lines = [run.advance() for _ in range(run.description["rounds"])]

        return rounds

    together.side_by_side([work(run) for run in runs])
    return runs


def gap(one, other) -> float:
    """Return the largest difference of two runs' vectors and metrics, clocks aside."""
    pairs = [(value, other.server[name]) for name, value in one.server.items()]
    pairs += [(values, other.state.store[name]) for name, values in one.state.store.items()]
    gaps = [float((full_rows(one, a) - full_rows(other, b)).abs().max()) for a, b in pairs]
    for line, expected in zip(one.lines, other.lines, strict=True):
        gaps += [abs(line[key] - expected[key]) for key in line if key != "seconds"]
    return max(gaps)


@pytest.mark.parametrize("name", sampled(NAMES, FEW))
def test_seeds_beside_each_other_are_what_they_are_alone(tmp_path, name):
    write_problem(tmp_path, sizes(name))
    specs = [spec_of(name, seed) for seed in SEEDS]
    for one, other in zip(side_by_side(tmp_path, specs, "stacked"), alone(tmp_path, specs, "stacked"), strict=True):
        assert gap(one, other) < 1e-12


@pytest.mark.parametrize("name", sampled(NAMES))
def test_in_float32_they_are_the_same_bytes(tmp_path, name):
    """On a CPU, of the model that is stacked there; a lone row is computed as one of two."""
    write_problem(tmp_path, sizes(name))
    specs = [spec_of(name, seed, precision="float32") for seed in SEEDS]
    for one, other in zip(side_by_side(tmp_path, specs, "stacked"), alone(tmp_path, specs, "stacked"), strict=True):
        assert gap(one, other) == 0


@pytest.mark.parametrize("executor", ["stacked", "products"])
def test_each_seed_keeps_its_dropout_masks(tmp_path, executor):
    write_problem(tmp_path)
    specs = [spec_of("fedsam", seed, model=DROPOUT, rounds=2) for seed in SEEDS]
    runs = side_by_side(tmp_path, specs, executor, None if executor == "stacked" else Tape())
    for one, other in zip(runs, alone(tmp_path, specs, "sequential"), strict=True):
        assert gap(one, other) < 1e-12
    assert gap(*runs[:2]) > 1e-6


@pytest.mark.parametrize("name", ["fedsmoo", "fedlesam", "dispfl"])
def test_recorded_steps_of_several_seeds(tmp_path, name):
    write_problem(tmp_path, sizes(name))
    specs = [spec_of(name, seed) for seed in SEEDS]
    tape = Tape()
    runs = side_by_side(tmp_path, specs, "products", tape)
    assert tape.recorded
    for one, other in zip(runs, alone(tmp_path, specs, "sequential"), strict=True):
        assert gap(one, other) < 1e-12


def test_recorded_steps_hold_on_to_no_round(tmp_path, monkeypatch):
    opened = []

    def opens(self, *arguments):
        w, ctx = whole(self, *arguments)
        opened.append(weakref.ref(ctx))
        return w, ctx

    whole = Simulation.begin_clients
    monkeypatch.setattr(Simulation, "begin_clients", opens)
    runs = side_by_side(tmp_path, [spec_of("fedsmoo", seed) for seed in SEEDS], "products", Tape())
    gc.collect()
    assert runs[0].local_update.alone.steps and len(opened) == 9
    assert not any(context() for context in opened)


def test_for_want_of_memory_it_is_the_recording_in_use_that_is_dropped(tmp_path):
    """That of the run that came first, whoever is short of memory, and also after it has ended."""
    runs = side_by_side(tmp_path, [spec_of("fedavg", seed) for seed in SEEDS], "products", Tape())
    assert runs[0].local_update.alone.capacity
    rows = runs[1].block(len(runs[1].sample()))
    shortage.spare(runs[1], "")
    assert runs[1].row_limit == -(-rows // 2) and not runs[0].local_update.alone.capacity


MIXED = ("sequential", "stacked", "products", "stacked")  # as where runs go on from checkpoints of theirs


def test_runs_meet_that_have_the_same_executor(tmp_path):
    meeting = seeds.Meeting(4)
    runs = [simulation(tmp_path, spec_of("fedsam", seed), name, meeting=meeting) for seed, name in enumerate(MIXED)]
    assert [run.local_update.together for run in runs] == [None] * 4
    trainers = [run.local_update.trainer for run in runs]
    assert [trainer is meeting for trainer in trainers] == [False, True, False, True]
    assert meeting.local_update is runs[1].local_update.alone
    assert [run.local_update.together for run in runs] == [None, 2, None, 2]
    assert all(run.local_update.plain.feed.data is runs[0].data for run in runs)


def test_a_run_is_trained_by_its_own_executor(tmp_path, monkeypatch):
    """Whoever comes first."""
    specs = [spec_of("fedsam", seed) for seed in range(4)]
    runs = [simulation(tmp_path, spec, name) for spec, name in zip(specs, MIXED, strict=True)]
    trained = set()

    def by_itself(self, w, plan, ctx):
        trained.add(self.executor.name)
        return plain(self, w, plan, ctx)

    def recorded(self, w, plan, ctx):
        trained.add(self.plain.executor.name)
        return replayed(self, w, plan, ctx)

    plain, replayed = LocalUpdate.run, Recorded.run
    monkeypatch.setattr(LocalUpdate, "run", by_itself)
    monkeypatch.setattr(Recorded, "run", recorded)

    def work(run):
        def rounds(meeting):
            run.local_update = seeds.Joined(run.local_update, meeting)
            for _ in range(3):
                run.advance()

        return rounds

    together.side_by_side([work(run) for run in runs])
    assert trained == set(MIXED)
    for run, expected in zip(runs, alone(tmp_path, specs, "sequential"), strict=True):
        meeting = run.local_update.meeting
        assert run.local_update.trainer is not meeting or meeting.local_update.plain.executor.name == run.executor.name
        assert (full_rows(run, run.server["w"]) - expected.server["w"]).abs().max() < 1e-12


def test_runs_that_end_or_started_earlier_do_not_matter(tmp_path):
    """One of a round, one of three, and one whose first two rounds were trained before."""
    specs = [spec_of("fedsmoo", seed, rounds=rounds) for seed, rounds in zip(SEEDS, (1, 3, 4), strict=True)]
    expected = alone(tmp_path, specs, "stacked")
    runs = [simulation(tmp_path, spec, "stacked") for spec in specs]
    runs[2].advance()
    runs[2].advance()

    def work(run):
        def rounds(meeting):
            run.local_update = seeds.Joined(run.local_update, meeting)
            while run.round < run.description["rounds"]:
                run.advance()

        return rounds

    together.side_by_side([work(run) for run in runs])
    for one, other in zip(runs, expected, strict=True):
        assert (one.server["w"] - other.server["w"]).abs().max() < 1e-12


def test_where_one_fails_the_others_stop(tmp_path):
    runs = [simulation(tmp_path, spec_of("fedavg", seed), "stacked") for seed in SEEDS]
    stopped = []

    def work(run, fails):
        def rounds(meeting):
            run.local_update = seeds.Joined(run.local_update, meeting)
            try:
                for number in range(3):
                    if fails and number == 1:
                        raise ValueError("this one")
                    run.advance()
            except Exception as error:
                stopped.append(type(error).__name__)
                raise

        return rounds

    with pytest.raises(ValueError, match="this one"):
        together.side_by_side([work(run, run is runs[1]) for run in runs])
    assert sorted(stopped) == ["Stopped", "Stopped", "ValueError"]
    assert max(run.round for run in runs) - min(run.round for run in runs) <= 1
    assert torch.isfinite(runs[0].server["w"]).all()


@pytest.mark.parametrize("first", [0, 1])
def test_a_failure_is_told_and_not_that_the_others_were_stopped(first):
    def stops(meeting):
        raise interruption.Stopped(signal.SIGTERM)

    def fails(meeting):
        raise OSError("no space left for its checkpoint")

    with pytest.raises(OSError, match="no space left"):
        together.side_by_side([fails, stops] if first else [stops, fails])


def folders(root, name: str) -> list:
    return [root / name / f"seed{seed}" for seed in SEEDS]


def contents(folder) -> tuple[bytes, list[dict]]:
    """Return the bytes of a run's model and the lines of its metrics, clocks aside."""
    with open(folder / "metrics.csv", newline="") as file:
        lines = [{key: text for key, text in line.items() if key != "seconds"} for line in csv.DictReader(file)]
    return (folder / "model.safetensors").read_bytes(), lines


def test_a_job_of_several_seeds_leaves_what_jobs_of_one_leave(tmp_path, capsys):
    data, _ = write_problem(tmp_path)
    dealt = [dealt_to(tmp_path, seed) for seed in SEEDS]
    specs = [spec_of("fedsmoo", seed, precision="float32", augmentation="crop_flip_half") for seed in SEEDS]
    for spec, file, out in zip(specs, dealt, folders(tmp_path, "alone"), strict=True):
        train(spec, data, file, out, device="cpu")
    outs = folders(tmp_path, "together")
    train_together(specs, data, dealt, outs, device="cpu")
    for one, other in zip(outs, folders(tmp_path, "alone"), strict=True):
        assert contents(one) == contents(other)
        assert {path.name for path in one.iterdir()} == {path.name for path in other.iterdir()}
    assert json.loads((outs[0] / "run.json").read_text())["together"] == 3
    before = contents(outs[0])
    (outs[1] / "run.json").unlink()
    capsys.readouterr()
    train_together(specs, data, dealt, outs, device="cpu")
    assert capsys.readouterr().err.count("finished already") == 2
    assert json.loads((outs[1] / "run.json").read_text())["together"] == 1
    assert contents(outs[0]) == before and contents(outs[1]) == contents(folders(tmp_path, "alone")[1])


def test_seeds_that_were_stopped_go_on_together(tmp_path, monkeypatch):
    data, _ = write_problem(tmp_path)
    dealt = [dealt_to(tmp_path, seed) for seed in SEEDS]
    specs = [spec_of("scaffold", seed, precision="float32", rounds=5, checkpoint_every=2) for seed in SEEDS]
    for spec, file, out in zip(specs, dealt, folders(tmp_path, "alone"), strict=True):
        train(spec, data, file, out, device="cpu")
    rounds = []

    def advance(self):
        rounds.append(self.round)
        if len(rounds) == 8:
            os.kill(os.getpid(), signal.SIGTERM)
        return whole(self)

    whole = Simulation.advance
    outs = folders(tmp_path, "together")
    with monkeypatch.context() as patch, pytest.raises(interruption.Stopped):
        patch.setattr(Simulation, "advance", advance)
        train_together(specs, data, dealt, outs, device="cpu")
    assert all((out / ".checkpoint").exists() and not (out / "run.json").exists() for out in outs)
    train_together(specs, data, dealt, outs, device="cpu")
    for one, other in zip(outs, folders(tmp_path, "alone"), strict=True):
        assert contents(one) == contents(other) and not (one / ".checkpoint").exists()


def test_only_seeds_train_together(tmp_path):
    data, dealt = write_problem(tmp_path)
    specs = [spec_of("fedavg", 1), spec_of("fedavg", 2, learning_rate=0.1, rounds=9)]
    with pytest.raises(DataError, match="may only differ in their seed, not in rounds, learning_rate"):
        train_together(specs, data, [dealt] * 2, folders(tmp_path, "together")[:2], device="cpu")
