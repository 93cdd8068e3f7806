"""Memory that runs out: a run goes on with less at a time and ends with the same model, or stops with a message."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch

from flatfed import algorithms, cli
from flatfed.engine import executors
from flatfed.engine.evaluate import Evaluation
from flatfed.engine.job import checkpoint
from flatfed.engine.memory import shortage
from flatfed.engine.simulation import Simulation
from flatfed.errors import Shortage
from flatfed.runs import record as records
from harness import ERRORS, IDENTITY, at_round, description, job, lines, needs, simulation, sizes, write_problem
from samples import FEW, sampled


class Lacking:
    """An executor's call that runs out of memory for more than ``most`` rows, and at the call number ``once``."""

    def __init__(
        self,
        monkeypatch,
        most: int,
        error: Exception = ERRORS["on a GPU"],
        once: int | None = None,
        kind=executors.Stacked,
    ):
        self.calls, self.taken = 0, []
        call = kind.__call__

        def limited(executor, w, batch):
            if w.device.type == "meta":  # where sizes are worked out, in nobody's memory
                return call(executor, w, batch)
            self.calls += 1
            if len(w) > most or self.calls == once:
                raise error
            self.taken.append(len(w))
            return call(executor, w, batch)

        monkeypatch.setattr(kind, "__call__", limited)


EVERYBODY = {"sampling": {"scheme": "all"}}


@pytest.mark.parametrize("name", sampled(algorithms.names(), FEW))
def test_fewer_rows_end_with_the_same_model(tmp_path, monkeypatch, capsys, name):
    """Six clients at a time are too many, then three, then once more in the middle of a later round's second block."""
    write_problem(tmp_path, sizes(name))
    spec = description(name, **{**needs(name), **EVERYBODY})
    whole = simulation(tmp_path, spec)
    expected = [whole.advance() for _ in range(4)]
    with monkeypatch.context() as patch:
        lacking = Lacking(patch, most=2)
        run = simulation(tmp_path, spec)
        if run.client_count == 1:
            assert [shortage.advance(run)["train_loss"] for _ in range(4)] == [line["train_loss"] for line in expected]
            return
        found = [shortage.advance(run)]
        assert run.row_limit == 2 and max(lacking.taken) == 2
        Lacking(patch, most=2, once=run.local_update.algorithm.gradients_per_step * 9 + 1)
        found += [shortage.advance(run) for _ in range(3)]
    assert run.row_limit == 1 and run.executor.name == "stacked"
    for line, other in zip(found, expected, strict=True):
        del line["seconds"], other["seconds"]
        assert line == pytest.approx(other, rel=1e-12, abs=1e-12)
    for vectors, others in ((run.server, whole.server), (run.state.store, whole.state.store)):
        assert all((vectors[key] - others[key]).abs().max() <= 1e-12 for key in others)
    assert run.cost.counts == whole.cost.counts
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3 and said[0].startswith("round 1: not enough memory on cpu (")
    assert said[0].endswith(
        "2.50 GiB more were requested; 3 client(s) at a time now, not 6: the same numbers up to rounding"
    )
    assert said[2].startswith("round 2:") or said[2].startswith("round 3:")


@pytest.mark.parametrize("kind", ERRORS)
def test_every_way_of_saying_that_memory_ran_out(tmp_path, monkeypatch, kind):
    Lacking(monkeypatch, most=2, error=ERRORS[kind])
    run = simulation(tmp_path, description("fedavg", **EVERYBODY))
    shortage.advance(run)
    assert run.row_limit == 2
    assert shortage.requested(ERRORS["on the host"]) == "; 81920 bytes more were requested"
    assert shortage.requested(ERRORS["in cuBLAS"]) == ""


def test_an_error_that_came_of_running_out(monkeypatch):
    """A recording that ends early hides what ended it."""
    try:
        try:
            raise ERRORS["on a GPU"]
        finally:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")
    except RuntimeError as error:
        assert shortage.is_shortage(error)
    assert not shortage.is_shortage(RuntimeError("shapes do not match")) and not shortage.is_shortage(KeyError("x"))


def test_other_errors_are_not_hidden(tmp_path, monkeypatch):
    run = simulation(tmp_path, description("fedavg"))
    Lacking(monkeypatch, most=0, error=RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        shortage.advance(run)


def test_what_was_used_is_recorded_and_kept_on_resume(tmp_path, monkeypatch):
    """The session after the one that ran out begins with as few rows, and ends with the same bytes in float32."""
    changes = {**EVERYBODY, "checkpoint_every": 1, "rounds": 5}
    with monkeypatch.context() as patch:
        Lacking(patch, most=3)
        whole = job(tmp_path, "fedsmoo", "whole", **changes)
        patch.setattr(Simulation, "advance", stopping(Simulation.advance, 3))
        with pytest.raises(KeyboardInterrupt):
            job(tmp_path, "fedsmoo", "parts", **changes)
    with monkeypatch.context() as patch:
        lacking = Lacking(patch, most=6)
        parts = job(tmp_path, "fedsmoo", "parts", **changes)
    assert max(lacking.taken) == 3
    assert lines(parts) == lines(whole)
    assert (parts / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    record = json.loads((parts / "run.json").read_text())
    assert record["rows"] == 3 and record["executor"] == "stacked" and len(record["sessions"]) == 2
    assert records.read_finished(job(tmp_path, "fedavg", "free")).rows is None


def stopping(advance, number):
    def stopped(self):
        if self.round == number:
            raise KeyboardInterrupt
        return advance(self)

    return stopped


def command(tmp_path, out, **changes) -> int:
    if not (tmp_path / "data").exists():
        write_problem(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(description("fedsmoo", precision="float32", **changes)))
    place = {"--run": tmp_path / "run.json", "--dataset": tmp_path / "data", "--partition": tmp_path / "partition.npz"}
    words = [str(word) for pair in {**place, "--out": tmp_path / out}.items() for word in pair]
    return cli.main(["train", *words, "--device", "cpu"])


def test_not_even_one_row_stops_with_what_is_wanted_and_nothing_is_lost(tmp_path, monkeypatch, capsys):
    changes = {
        "checkpoint_every": 100,
        "sampling": {"scheme": "all"},
        "executor": {"cpu": "stacked", "cuda": "stacked"},
    }
    assert command(tmp_path, "few", **changes) == 0
    with monkeypatch.context() as patch:
        at_round(patch, 2, lambda: Lacking(patch, most=0))
        assert command(tmp_path, "parts", **changes) == cli.REFUSED
    said = capsys.readouterr().err
    assert "Traceback" not in said and "stopped for lack of memory after round 2; checkpoint written" in said
    last = said.strip().splitlines()[-1]
    assert last.startswith("flatfed train: round 3: not enough memory on cpu (") and "one client at a time" in last
    for words in ("client state takes ", "What helps: ", "`executor: sequential`", "`batch_size`", "`precision:"):
        assert words in last
    assert not (tmp_path / "parts" / "run.json").exists()
    assert command(tmp_path, "parts", **changes) == 0
    assert "from round 2 of its checkpoint" in capsys.readouterr().err
    record = json.loads((tmp_path / "parts" / "run.json").read_text())
    assert record["rows"] == 1 and [s["from_round"] for s in record["sessions"]] == [0, 2]


def test_a_round_that_runs_out_while_it_mixes_goes_on_from_the_last_checkpoint(tmp_path, monkeypatch):
    whole = job(tmp_path, "dfedsam", "whole", checkpoint_every=2)
    kind = algorithms.load("dfedsam")
    hook, calls = kind.mix, []

    def broken(self, *arguments):
        calls.append(None)
        hook(self, *arguments)
        if len(calls) == 4:
            raise ERRORS["on a GPU"]

    with monkeypatch.context() as patch, pytest.raises(Shortage, match=r"round 4: not enough memory.*What"):
        patch.setattr(kind, "mix", broken)
        job(tmp_path, "dfedsam", "parts", checkpoint_every=2)
    parts = job(tmp_path, "dfedsam", "parts", checkpoint_every=2)
    assert lines(parts) == lines(whole)
    assert (parts / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert [s["from_round"] for s in json.loads((parts / "run.json").read_text())["sessions"]] == [0, 2]


@pytest.mark.parametrize("executor", ["sequential", "stacked", "products"])
@pytest.mark.parametrize("name", ["fedsmoo", "fedlesam"])
def test_an_aggregation_that_fails_is_undone(tmp_path, monkeypatch, name, executor):
    run = simulation(tmp_path, description(name), executor)
    run.advance()
    server = {key: value.clone() for key, value in run.server.items()}
    store = {key: value.clone() for key, value in run.state.store.items()}
    received = run.state.received and run.state.received.rounds.copy()
    hook = type(run.algorithm).aggregate

    def broken(self, *arguments):
        hook(self, *arguments)
        raise MemoryError

    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(type(run.algorithm), "aggregate", broken)
        run.advance()
    assert run.round == 1 and run.state.consistent
    assert all(torch.equal(value, server[key]) for key, value in run.server.items())
    assert all(torch.equal(value, store[key]) for key, value in run.state.store.items())
    assert received is None or (received == run.state.received.rounds).all()


def test_before_the_first_round(tmp_path, monkeypatch, capsys):
    def none(*_):
        raise MemoryError("Unable to allocate 80.0 GiB for an array with shape (100, 99999)")

    monkeypatch.setattr("flatfed.engine.client_state._reserve", none)
    assert command(tmp_path, "run") == cli.REFUSED
    said = capsys.readouterr().err.strip().splitlines()
    assert said[-1].startswith("flatfed train: before the first round: not enough memory on cpu (")
    assert "What helps: " in said[-1]


@pytest.mark.parametrize("name", ["fedsmoo", "fedlesam", "fedlesam_d"])
def test_client_state_goes_to_the_host_before_fewer_rows_train(tmp_path, monkeypatch, capsys, name):
    """No byte changes by that. A CPU stands in for the GPU: what lies on it counts as on the device."""
    spec = description(name, precision="float32", **EVERYBODY)
    whole = simulation(tmp_path, spec)
    for _ in range(4):
        whole.advance()
    monkeypatch.setattr("flatfed.engine.memory.home.choose", lambda size, device: "device")
    run = simulation(tmp_path, spec)
    shortage.advance(run)
    assert run.state.home == "device"
    Lacking(monkeypatch, most=6, once=2)
    for _ in range(3):
        shortage.advance(run)
    moved = bool(run.algorithm.client_state)
    assert (run.state.home, run.row_limit) == (("memory", None) if moved else ("device", 3))
    assert ("client state (" in capsys.readouterr().err) == moved
    if moved:
        assert torch.equal(run.server["w"], whole.server["w"])
        assert all(torch.equal(values, whole.state.store[key]) for key, values in run.state.store.items())


def test_client_state_does_not_go_to_a_disk_that_has_no_room(tmp_path, monkeypatch):
    """A write there would end the process without a word."""
    monkeypatch.setattr("flatfed.engine.memory.home.choose", lambda size, device: "device")
    run = simulation(tmp_path, description("fedsmoo", precision="float32", **EVERYBODY))
    monkeypatch.setattr("flatfed.engine.memory.home.available", lambda: 0)
    monkeypatch.setattr("flatfed.engine.memory.home.shutil.disk_usage", lambda folder: SimpleNamespace(free=0))
    Lacking(monkeypatch, most=6, once=2)
    with pytest.raises(Shortage, match=r"client state: .* TMPDIR set to a folder on a larger disk"):
        for _ in range(3):
            shortage.advance(run)
    assert run.state.home == "device"


@pytest.mark.parametrize("executor", ["sequential", "stacked", "products"])
@pytest.mark.parametrize("name", ["fedsmoo", "scaffold", "dfedsam"])
def test_state_apart_from_the_device_changes_no_byte(tmp_path, monkeypatch, name, executor):
    """The way of rows between host and GPU, taken on a CPU."""
    spec = description(name, **{"precision": "float32", **needs(name)})
    whole, run = (simulation(tmp_path, spec, executor) for _ in range(2))
    monkeypatch.setattr(type(run.state), "_off_device", property(lambda state: state is run.state))
    for _ in range(4):
        whole.advance()
        shortage.advance(run)
    assert torch.equal(run.server["w"], whole.server["w"])
    assert all(torch.equal(values, whole.state.store[key]) for key, values in run.state.store.items())


def test_a_recording_is_made_anew_for_fewer_rows(tmp_path, monkeypatch):
    """Buffers have as many rows as the largest block: they would take what the smaller one is to save."""
    spec = description("fedavg", **EVERYBODY)
    run = simulation(tmp_path, spec, "products")
    Lacking(monkeypatch, most=3, kind=executors.Products)
    shortage.advance(run)
    assert run.row_limit == run.local_update.capacity == 3
    checkpoint.Checkpoint(tmp_path, IDENTITY).write(run, {})
    resumed = simulation(tmp_path, spec, "products")
    checkpoint.Checkpoint(tmp_path, IDENTITY).restore(resumed)
    resumed.advance()
    assert resumed.row_limit == resumed.local_update.capacity == 3


def test_an_evaluation_without_memory_because_of_recorded_steps(tmp_path, monkeypatch, capsys):
    """The memory of recorded steps is released, only the evaluation is repeated, and fewer rows train afterwards."""
    spec = description("fedavg", **EVERYBODY)
    expected = simulation(tmp_path, spec, "products").advance()["test_loss"]
    run = simulation(tmp_path, spec, "products")
    evaluate = Evaluation.hits

    def limited(*arguments):
        if run.local_update.capacity > 3:
            raise ERRORS["on a GPU"]
        return evaluate(*arguments)

    monkeypatch.setattr(Evaluation, "hits", limited)
    assert shortage.advance(run)["test_loss"] == expected
    assert (run.round, run.row_limit, run.local_update.capacity) == (1, 3, 0)
    assert capsys.readouterr().err.startswith("round 1: not enough memory on cpu")
    assert shortage.advance(run) is not None and run.local_update.capacity == 3


def test_an_evaluation_without_memory_stops_and_changes_no_rows(tmp_path, monkeypatch):
    run = simulation(tmp_path, description("fedavg", **EVERYBODY))
    said = r"round 1: .* for the evaluation; 2\.50 GiB more"
    with monkeypatch.context() as patch, pytest.raises(Shortage, match=said):
        patch.setattr(Evaluation, "hits", failing)
        shortage.advance(run)
    assert run.row_limit is None and shortage.advance(run) is not None and run.round == 1


def failing(*_):
    raise ERRORS["on a GPU"]


def test_remedies_name_the_cpu_where_a_gpu_is_full():
    assert "`device: cpu`" in shortage.remedies(SimpleNamespace(type="cuda"))
    assert "`device: cpu`" not in shortage.remedies(torch.device("cpu"))


def test_a_shortage_leaves_the_checkpoint_readable(tmp_path):
    """A checkpoint names the rows; one of a run that never ran out names none."""
    run = simulation(tmp_path, description("fedavg"))
    run.row_limit = 2
    checkpoint.Checkpoint(tmp_path, IDENTITY).write(run, {})
    other = simulation(tmp_path, description("fedavg"))
    checkpoint.Checkpoint(tmp_path, IDENTITY).restore(other)
    assert other.row_limit == 2
