"""Where client state goes, and what happens without enough: a stop, and a remedy."""

from types import SimpleNamespace

import pytest
import torch

from flatfed import algorithms, cli
from flatfed.engine import executors
from flatfed.engine.evaluate import Evaluation
from flatfed.engine.job import memory
from flatfed.errors import Shortage
from flatfed.runs import record as records
from harness import (
    ERRORS,
    advanced,
    assert_same,
    at_round,
    description,
    job,
    lines,
    needs,
    sessions,
    simulation,
    train_command,
)
from samples import FEW, sampled

EVERYBODY = {"sampling": {"scheme": "all"}}
EXECUTORS = pytest.mark.parametrize("executor", sampled(["sequential", "stacked", "products"], ["stacked"]))


def failing(error: Exception, call=lambda *_, **__: None):
    """Return a function that raises ``error`` after ``call``."""

    def fail(*arguments, **options):
        call(*arguments, **options)
        raise error

    return fail


def lack(monkeypatch, most: int, error: Exception = ERRORS["on a GPU"]) -> list[int]:
    """Let memory run out for more than ``most`` rows; return the list of all numbers of rows that train."""
    call, taken = executors.Stacked.__call__, []

    def limited(executor, w, batch):
        if len(w) > most:
            raise error
        taken.append(len(w))
        return call(executor, w, batch)

    monkeypatch.setattr(executors.Stacked, "__call__", limited)
    return taken


@pytest.mark.parametrize("name", sampled(algorithms.names(), FEW))
@pytest.mark.parametrize("rows", sampled([1, 4], [4]))
def test_fewer_rows_end_with_the_same_model(tmp_path, name, rows):
    spec = description(name, **{**needs(name), **EVERYBODY})
    whole, run = simulation(tmp_path, spec), simulation(tmp_path, {**spec, "rows": rows})
    for line, other in zip(advanced(whole, 4), advanced(run, 4), strict=True):
        assert line == pytest.approx(other, rel=1e-12, abs=1e-12)
    for vectors, others in ((run.server, whole.server), (run.state.store, whole.state.store)):
        assert all((vectors[key] - others[key]).abs().max() <= 1e-12 for key in others)
    assert run.cost.counts == whole.cost.counts


def test_every_way_of_saying_that_memory_ran_out():
    assert all(memory.is_shortage(error) for error in ERRORS.values())
    for name, amount in (("on the host", "; 81920 bytes more were requested"), ("in cuBLAS", "")):
        with (
            pytest.raises(Shortage, match=rf"^here: not enough memory on cpu{amount}\. What helps: "),
            memory.explained(torch.device("cpu"), "here"),
        ):
            raise ERRORS[name]
    hidden = RuntimeError("CUDA error: operation failed due to a previous error during capture")
    assert not memory.is_shortage(hidden) and not memory.is_shortage(KeyError("x"))
    hidden.__context__ = ERRORS["on a GPU"]  # a recording that ends early hides what ended it
    assert memory.is_shortage(hidden)


def test_a_run_stops_with_its_checkpoint_and_resumes_with_the_remedy(tmp_path, monkeypatch, capsys):
    changes = {**EVERYBODY, "rounds": 5}

    def train(out: str, **remedies) -> tuple[int, str]:
        return train_command(tmp_path, out, **remedies, **changes), capsys.readouterr().err

    assert train("whole")[0] == 0
    with monkeypatch.context() as patch:
        at_round(patch, 2, lambda: lack(patch, most=3))
        status, output = train("parts")
    assert status == cli.REFUSED and "Traceback" not in output
    assert "stopped for lack of memory after round 2; checkpoint written" in output
    last = output.strip().splitlines()[-1]
    assert last.startswith("flatfed train: round 3: not enough memory on cpu; 2.50 GiB more were requested")
    keys, restart = last.split("from the first round again")
    assert all(key in keys for key in ("`rows`", "`state: file`", "`batch_size` of `evaluation`"))
    assert "`executor: sequential`" in restart and not (tmp_path / "parts" / "run.json").exists()
    for out, method, error, phase in (
        ("parts", "ClientState.load", ERRORS["on a GPU"], "while resuming"),
        ("other", "ClientState._reserve", ERRORS["in numpy"], "before the first round"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"flatfed.engine.client_state.{method}", failing(error))
            status, output = train(out)
        assert status == cli.REFUSED and f"flatfed train: {phase}: not enough memory on cpu" in output
    remedies = {"rows": 3, "state": "file", "evaluation": {"every": 1, "sets": ["test"], "batch_size": 5}}
    taken = lack(monkeypatch, most=3)
    status, output = train("parts", **remedies)
    assert status == 0 and max(taken) == 3 and "client state is in a file" in output
    assert "from round 2 of its checkpoint" in output and sessions(tmp_path / "parts") == [0, 2]
    record, whole = (records.read_finished(tmp_path / out) for out in ("parts", "whole"))
    assert (record.rows, record.client_state, record.executor) == (3, "file", "stacked")
    assert (whole.rows, whole.client_state) == (None, "memory") and record.config.deciding == whole.config.deciding
    for line, other in zip(lines(tmp_path / "parts"), lines(tmp_path / "whole"), strict=True):
        assert {key: float(value) for key, value in line.items()} == pytest.approx(
            {key: float(value) for key, value in other.items()}, rel=1e-4
        )


@pytest.mark.parametrize(
    ("name", "owner", "method", "number", "began"),
    [("dfedsam", algorithms.load("dfedsam"), "mix", 3, 3), ("fedavg", Evaluation, "hits", 1, 2)],
)
def test_a_shortage_costs_at_most_the_round(tmp_path, monkeypatch, name, owner, method, number, began):
    """In a mixing, and in an evaluation, which alone is repeated."""
    whole, fails = job(tmp_path, name, "whole"), failing(ERRORS["on a GPU"], getattr(owner, method))
    message = rf"round {number + 1}: not enough memory.*2\.50 GiB more.*What"
    with monkeypatch.context() as patch, pytest.raises(Shortage, match=message):
        at_round(patch, number, lambda: patch.setattr(owner, method, fails))
        job(tmp_path, name, "parts")
    assert_same(job(tmp_path, name, "parts"), whole, [0, began])


@EXECUTORS
@pytest.mark.parametrize(
    ("name", "hook"),
    [("fedsmoo", "aggregate"), ("fedlesam", "aggregate"), ("dfedsam", "mix"), ("dpsgd", "finish"), ("dispfl", "mix")],
)
def test_a_round_that_fails_changes_nothing(tmp_path, monkeypatch, name, hook, executor):
    """After the hook has changed its arguments in place."""
    run = simulation(tmp_path, description(name, **needs(name)), executor)
    run.advance()
    counts = dict(run.cost.counts)
    before = [(values, values.clone()) for values in (*run.server.values(), *run.state.store.values())]
    received = run.state.received and run.state.received.rounds.copy()
    kind = type(run.algorithm)
    monkeypatch.setattr(kind, hook, failing(MemoryError(), getattr(kind, hook)))
    with pytest.raises(MemoryError):
        run.advance()
    assert (run.round, run.cost.counts) == (1, counts)
    assert all(torch.equal(values, copy) for values, copy in before)
    assert received is None or (received == run.state.received.rounds).all()


@EXECUTORS
@pytest.mark.parametrize("name", ["fedsmoo", "dfedsam"])
def test_state_in_a_file_changes_no_byte(tmp_path, name, executor):
    spec = description(name, **{"precision": "float32", **needs(name)})
    whole, run = (simulation(tmp_path, {**spec, **state}, executor) for state in ({}, {"state": "file"}))
    assert run.state.home == "file" != whole.state.home
    assert advanced(whole, 4) == advanced(run, 4)
    assert torch.equal(run.server["w"], whole.server["w"])
    assert all(torch.equal(values, whole.state.store[key]) for key, values in run.state.store.items())


def test_where_client_state_goes(tmp_path, monkeypatch, capsys):
    """A GPU needs twice the room, because a round works on copies."""
    gpu, cpu, free = torch.device("cuda"), torch.device("cpu"), {}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free["gpu"], 0))
    for free["gpu"], expected in ((8, "device"), (7, "memory")):
        assert memory.choose_home(4, gpu) == expected
    assert memory.choose_home(4, cpu) == "memory"
    assert [memory.choose_home(4, gpu, home) for home in ("device", "memory", "file")] == ["device", "memory", "file"]
    job(tmp_path, "fedsmoo", "run", state="file")
    assert "client state is in a file in /" in capsys.readouterr().err
    monkeypatch.setattr(memory.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
    with pytest.raises(Shortage, match=r"client state: 69 kB .* space in /.* \(1 kB\).*TMPDIR.*`state: memory`"):
        job(tmp_path, "fedsmoo", "other", state="file")
