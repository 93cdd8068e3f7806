"""How much memory there is, where client state goes, and what happens without enough: a stop, and a remedy."""

from types import SimpleNamespace

import pytest
import torch

from flatfed import algorithms, cli
from flatfed.engine import executors
from flatfed.engine.evaluate import Evaluation
from flatfed.engine.job import machine, memory
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
@pytest.mark.parametrize("rows", [1, 4])
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
    assert memory.requested(ERRORS["on the host"]) == "; 81920 bytes more were requested"
    assert memory.requested(ERRORS["in cuBLAS"]) == ""
    hidden = RuntimeError("CUDA error: operation failed due to a previous error during capture")
    assert not memory.is_shortage(hidden) and not memory.is_shortage(KeyError("x"))
    hidden.__context__ = ERRORS["on a GPU"]  # a recording that ends early hides what ended it
    assert memory.is_shortage(hidden)


def test_a_run_stops_with_its_checkpoint_and_resumes_with_the_remedy(tmp_path, monkeypatch, capsys):
    changes = {**EVERYBODY, "checkpoint_every": 100, "rounds": 5}

    def train(out: str, **remedies) -> tuple[int, str]:
        return train_command(tmp_path, out, **remedies, **changes), capsys.readouterr().err

    assert train("whole")[0] == 0
    with monkeypatch.context() as patch:
        at_round(patch, 2, lambda: lack(patch, most=3))
        status, output = train("parts")
    assert status == cli.REFUSED and "Traceback" not in output
    assert "stopped for lack of memory after round 2; checkpoint written" in output
    last = output.strip().splitlines()[-1]
    assert last.startswith("flatfed train: round 3: not enough memory on cpu (") and "2.50 GiB more" in last
    keys, restart = last.split("from the first round again")
    assert all(key in keys for key in ("`rows: 3`", "`state: file`", "`batch_size` of `evaluation`"))
    assert "`executor: sequential`" in restart and not (tmp_path / "parts" / "run.json").exists()
    for out, method, error, phase in (
        ("parts", "ClientState.load", ERRORS["on a GPU"], "while resuming"),
        ("other", "_reserve", ERRORS["in numpy"], "before the first round"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"flatfed.engine.client_state.{method}", failing(error))
            status, output = train(out)
        assert status == cli.REFUSED and f"flatfed train: {phase}: not enough memory on cpu (" in output
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
    ("name", "owner", "method", "number"),
    [("dfedsam", algorithms.load("dfedsam"), "mix", 3), ("fedavg", Evaluation, "hits", 1)],
)
def test_the_last_checkpoint_is_from_before_the_shortage(tmp_path, monkeypatch, name, owner, method, number):
    """In a mixing, and in an evaluation, which alone is repeated."""
    whole, fails = job(tmp_path, name, "whole"), failing(ERRORS["on a GPU"], getattr(owner, method))
    message = rf"round {number + 1}: not enough memory.*2\.50 GiB more.*What"
    with monkeypatch.context() as patch, pytest.raises(Shortage, match=message):
        at_round(patch, number, lambda: patch.setattr(owner, method, fails))
        job(tmp_path, name, "parts")
    assert_same(job(tmp_path, name, "parts"), whole, [0, 2])


@EXECUTORS
@pytest.mark.parametrize("name", ["fedsmoo", "fedlesam"])
def test_an_aggregation_that_fails_is_undone(tmp_path, monkeypatch, name, executor):
    run = simulation(tmp_path, description(name), executor)
    run.advance()
    before = [(values, values.clone()) for values in (*run.server.values(), *run.state.store.values())]
    received = run.state.received and run.state.received.rounds.copy()
    kind = type(run.algorithm)
    monkeypatch.setattr(kind, "aggregate", failing(MemoryError(), kind.aggregate))
    with pytest.raises(MemoryError):
        run.advance()
    assert run.round == 1 and run.state.consistent
    assert all(torch.equal(values, copy) for values, copy in before)
    assert received is None or (received == run.state.received.rounds).all()


@EXECUTORS
@pytest.mark.parametrize("home", ["file", "apart"])
@pytest.mark.parametrize("name", ["fedsmoo", "dfedsam"])
def test_state_elsewhere_changes_no_byte(tmp_path, monkeypatch, name, executor, home):
    """In a file; and, on a CPU, the way of rows between host and GPU."""
    spec = description(name, **{"precision": "float32", **needs(name)})
    whole, run = (simulation(tmp_path, {**spec, **state}, executor) for state in ({}, {"state": "file"}))
    assert run.state.home == "file" != whole.state.home
    if home == "apart":
        monkeypatch.setattr(type(run.state), "_off_device", property(lambda state: state is run.state))
    assert advanced(whole, 4) == advanced(run, 4)
    assert torch.equal(run.server["w"], whole.server["w"])
    assert all(torch.equal(values, whole.state.store[key]) for key, values in run.state.store.items())


def test_remedies_fit_the_run():
    gpu, cpu = SimpleNamespace(type="cuda"), torch.device("cpu")
    assert "`device: cpu`" in memory.remedies(gpu) and "`device: cpu`" not in memory.remedies(cpu)
    assert "`rows: 3`, `state: memory` or `file`, " in memory.remedies(gpu, 5, "device")
    assert "`state" not in memory.remedies(cpu, 1, None) and "`rows" not in memory.remedies(cpu, 1, "file")


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (1 << 30, [(-3, 1 << 30), (-1, (1 << 31) - 1)]),
        (1 << 25, [(-3, 1 << 30), (-3, 1 << 25), (-1, (1 << 31) - 1)]),  # an older glibc
        (0, [(-3, 1 << 30), (-3, 1 << 25)]),  # the trim threshold alone would make it slower than nothing
        (None, []),  # another C library is left alone
    ],
)
def test_memory_is_kept_where_the_c_library_can(monkeypatch, most, expected):
    calls = []

    def mallopt(number, value):
        calls.append((number, value))
        return int(number != -3 or value <= most)

    library = SimpleNamespace() if most is None else SimpleNamespace(mallopt=mallopt)
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: library)
    machine.set_up(1)
    assert calls == expected


def test_available_memory_is_the_machines_or_what_a_cgroup_leaves(tmp_path):
    def write(folder, **files):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (tmp_path / folder / name.replace("__", ".")).write_text(text)

    assert memory.available(tmp_path) > 0, "where there is no /proc"
    write("proc", meminfo="MemTotal: 9000 kB\nMemAvailable:    8000 kB\n")
    assert memory.available(tmp_path) == 8000 * 1024
    write("proc/self", cgroup="12:pids:/a\n5:cpuset,memory:/job\n0::/slurm/job1/step\n")
    assert memory.available(tmp_path) == 8000 * 1024, "groups that set no limit"
    # Version 2: the step has none of its own, the job has 5 MB, of which 3 are taken, 1 of that by files.
    write("sys/fs/cgroup/slurm/job1/step", memory__max="max\n", memory__current="1000\n")
    job = {"memory__max": "5000000", "memory__current": "3000000", "memory__stat": "anon 7\ninactive_file 1000000\n"}
    write("sys/fs/cgroup/slurm/job1", **job)
    assert memory.available(tmp_path) == 3_000_000
    job = {"limit_in_bytes": "9", "usage_in_bytes": "7", "stat": "total_inactive_file 0"}
    write("sys/fs/cgroup/memory/job", **{f"memory__{name}": text for name, text in job.items()})
    assert memory.available(tmp_path) == 2


def test_where_client_state_goes(tmp_path, monkeypatch, capsys):
    free, room = {}, SimpleNamespace(free=10**9)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free["cuda"], 0))
    monkeypatch.setattr(memory, "available", lambda: free["cpu"])
    monkeypatch.setattr(memory.shutil, "disk_usage", lambda folder: room)
    cases = (8, 0, "device", "file"), (7, 8, "memory", "memory"), (7, 7, "file", "file")
    for free["cuda"], free["cpu"], *expected in cases:
        assert [memory.choose_home(4, torch.device(place)) for place in ("cuda", "cpu")] == expected
    job(tmp_path, "fedsmoo", "run")
    assert "client state is in a file in /" in capsys.readouterr().err
    room.free = 1000
    with pytest.raises(Shortage, match=r"client state: 69 kB .* space in /.* \(1 kB\).*TMPDIR"):
        job(tmp_path, "fedsmoo", "other")
