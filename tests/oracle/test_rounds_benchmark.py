"""benchmarks/rounds.py in small form, and that what it says of phases and floors is so."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import rounds
from phases import PHASES, PhaseClock, gradient_flops
from workloads import ALGORITHMS, WORKLOADS

from flatfed.engine.job import assembly
from flatfed.engine.local_update import LocalUpdate

ROOT = Path(__file__).parents[2]

#: What a bare GPU host lacks: none of it may be imported.
ABSENT = ("jsonschema", "matplotlib", "networkx", "pandas", "pyhessian", "seaborn", "sklearn", "snakemake", "yaml")
BARE = f"""
import runpy, sys
sys.modules.update(dict.fromkeys({ABSENT!r}))
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
SMALL = ["--device", "cpu", "--quick", "--rounds", "2", "--clients", "2", "--steps", "1"]


def bench(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", BARE, "benchmarks/rounds.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The report of the digits' rows, made with torch, numpy and safetensors alone, and its file."""
    out = tmp_path_factory.mktemp("rounds") / "report.json"
    done = bench("W3-10", *SMALL, "--executor", "sequential", "stacked", "--yardstick-clients", "1", "--out", str(out))
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text()), out


def test_rows_say_what_was_measured(report):
    found = report[0]
    assert [row["algorithm"] for row in found["rows"]] == list(ALGORITHMS)
    for row in found["rows"]:
        assert (row["clients"], row["total"], row["steps"]) == (2, 100, 1)
        assert row["changed"] == {"clients a round": 2, "local steps": 1}
        ours, theirs = ["sequential", "stacked"], ["loader", "resident"]
        assert row["failed"].keys() <= set(ours)
        ours = [name for name in ours if name not in row["failed"]]
        assert list(row["seconds"]) == ours + theirs
        for name in ours:
            taken = row["seconds"][name]
            assert taken["median"] == pytest.approx(statistics.median(taken["all"]), rel=1e-3)
            assert len(taken["all"]) == 2
            for yardstick in theirs:
                pairs = zip(row["seconds"][yardstick]["all"], taken["all"], strict=True)
                expected = statistics.median(a / b for a, b in pairs)
                assert row["ratio"][name][yardstick] == pytest.approx(expected, rel=1e-2)
            assert list(row["phases"][name]) == list(PHASES)
            assert sum(row["phases"][name].values()) == pytest.approx(1, abs=1e-3)
            assert 0 < row["of_floor"][name] < 1
        assert row["floor"]["seconds"] == max(row["floor"]["arithmetic"], row["floor"]["memory"])
        assert 0 < row["evaluation"]["share"] < 1
    (session,) = found["sessions"]
    assert session["device"] == "cpu" and session["libraries"]["torch"] == torch.__version__


def test_the_same_command_goes_on(report, tmp_path):
    """Rows that are there stay as they are, and without time left none is begun."""
    before = report[1].read_text()
    out = tmp_path / "report.json"
    out.write_text(before)
    arguments = ["W3-10", *SMALL, "--out", str(out)]
    with pytest.raises(SystemExit) as done:
        rounds.main(arguments)
    assert done.value.code == 0
    assert out.read_text() == before
    with pytest.raises(SystemExit):
        rounds.main([*arguments, "--clients", "3", "--budget", "0"])
    assert json.loads(out.read_text()) == {**json.loads(before), "unfinished": len(ALGORITHMS)}


def test_an_unknown_workload_is_named(capsys):
    with pytest.raises(SystemExit) as done:
        rounds.main(["W4"])
    assert done.value.code == 2
    assert "no workload 'W4'; there are W1, W2-32, W2-28, W3-10, W3-100, scaling and all" in capsys.readouterr().err


def test_a_row_that_fails_loses_no_other(tmp_path, monkeypatch, capsys):
    measure = rounds.Contest.measure

    def failing(self, kind, workload, algorithm):
        if algorithm == "fedavg":
            raise RuntimeError("out of everything")
        return measure(self, kind, workload, algorithm)

    monkeypatch.setattr(rounds.Contest, "measure", failing)
    out = tmp_path / "report.json"
    with pytest.raises(SystemExit) as done:
        rounds.main(["W3-10", *SMALL, "--algorithms", "fedavg", "scaffold", "--out", str(out)])
    assert done.value.code == 1
    assert [row["algorithm"] for row in json.loads(out.read_text())["rows"]] == ["scaffold"]
    assert "out of everything" in capsys.readouterr().err


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_floor_is_of_products_in_the_precision_of_the_run(tmp_path, monkeypatch, precision):
    formats = []
    product = torch.mm

    def mm(a, b, out):
        formats.append(a.dtype)
        return product(a, b, out=out)

    monkeypatch.setattr(torch, "mm", mm)
    monkeypatch.setattr(rounds.Contest, "measure", lambda *_: {"seconds": {}})
    out = tmp_path / "report.json"
    chosen = ["--precision", precision, "--algorithms", "fedavg", "--out", str(out)]
    with pytest.raises(SystemExit):
        rounds.main(["W3-10", *SMALL, *chosen])
    assert set(formats) == {getattr(torch, precision)}
    assert json.loads(out.read_text())["sessions"][0]["peak"]["products"] == precision


def test_scaling_covers_clients_totals_sizes_and_seeds():
    for cuda in (False, True):
        kinds = rounds.scaling(cuda)
        assert {one.seeds for kind, one in kinds if kind == "seeds"} == {2, 4, 8}
        found = [one for kind, one in kinds if kind == "scaling"]
        assert {1, 3, 10, 30, 100} <= {one.active for one in found}
        assert {100, 1000, 10_000} <= {one.total for one in found}
        assert {one.model for one in found} >= {"cnn_tiny", "cnn", "vgg11_gn", "resnet18_gn"}
        assert len({(one.name, one.active, one.total) for one in found}) == len(found), "rows are told apart"


def test_seeds_train_alone_and_together(tmp_path, monkeypatch):
    workload = replace(WORKLOADS["W3-10"].but(clients=2, steps=1), seeds=3)
    monkeypatch.setattr(rounds, "scaling", lambda cuda: [("seeds", workload)])
    trained = []
    step = LocalUpdate.step
    monkeypatch.setattr(LocalUpdate, "step", lambda self, w, *rest: trained.append(len(w)) or step(self, w, *rest))
    out = tmp_path / "report.json"
    with pytest.raises(SystemExit) as done:
        rounds.main(["scaling", *SMALL, "--out", str(out)])
    assert done.value.code == 0
    rows = json.loads(out.read_text())["rows"]
    assert [(row["kind"], row["algorithm"], row["seeds"]) for row in rows] == [("seeds", a, 3) for a in rounds.SCALED]
    for row in rows:
        pairs = zip(row["seconds"]["alone"]["all"], row["seconds"]["together"]["all"], strict=True)
        assert row["ratio"]["together"]["alone"] == pytest.approx(statistics.median(a / b for a, b in pairs), rel=1e-2)
    assert {2, 6} == set(trained) and trained.count(2) == 3 * trained.count(6), "two clients of three seeds"


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_a_clock_changes_no_number(executor):
    workload = WORKLOADS["W3-10"].but(clients=3, steps=2)
    dataset, partition = workload.data()
    runs = [
        assembly.simulation(workload.description("fedsmoo"), dataset, partition, torch.device("cpu"), executor)
        for _ in range(2)
    ]
    runs[0].advance()
    shares = PhaseClock(runs[1], lambda: None).shares(1)
    assert torch.equal(runs[0].server["w"], runs[1].server["w"])
    assert all(shares.values())


def test_operations_of_a_gradient():
    """The tiny CNN by hand: two operations a product; the first layer has no gradient of its input."""
    workload = WORKLOADS["W3-10"].but(clients=1)
    dataset, partition = workload.data()
    run = assembly.simulation(workload.description("fedavg"), dataset, partition, torch.device("cpu"), "stacked")
    first, second, dense = 8 * 8 * 8 * 9, 4 * 4 * 16 * 8 * 9, 64 * 10
    for batch in (1, 4):
        assert gradient_flops(run, batch) == 2 * (2 * first + 3 * second + 3 * dense)


def test_a_shrunk_workload_knows_by_how_much():
    for workload in WORKLOADS.values():
        small = workload.but(clients=2, steps=3)
        assert small.active * small.steps * small.shrunk == pytest.approx(workload.active * workload.steps)
        assert small.changed == {"clients a round": 2, "local steps": 3}
