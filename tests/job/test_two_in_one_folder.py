"""A training by hand where another one trains: refused with what to do, and the one that is there is not disturbed."""

import json

import pytest

from flatfed import cli
from flatfed.runs import lock
from harness import dealt_to, description, write_problem


@pytest.fixture
def problem(tmp_path, monkeypatch):
    write_problem(tmp_path)
    for seed in (3, 4):
        run = description("fedavg", precision="float32", rounds=2, seed=seed)
        (tmp_path / f"{seed}.json").write_text(json.dumps(run))
        dealt_to(tmp_path, seed)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lock, "PATIENCE", 0.0)
    return tmp_path


def train(*seeds):
    runs, outs = [f"{seed}.json" for seed in seeds], [f"out{seed}" for seed in seeds]
    dealt = [f"partition{seed}.npz" for seed in seeds]
    words = ["--run", *runs, "--partition", *dealt, "--out", *outs, "--dataset", "data", "--device", "cpu"]
    return cli.main(["train", *words])


@pytest.mark.parametrize("seeds", [[3], [4, 3]], ids=["one run", "one of two that train together"])
def test_the_second_is_refused(problem, capsys, seeds):
    with lock.held("out3"):
        before = [(path, path.read_bytes()) for path in (problem / "out3").iterdir()]
        assert train(*seeds) == 2
        said = capsys.readouterr().err
        assert said.startswith("flatfed train: out3: another process trains this run (process ")
        assert "Wait until it is done, or end it" in said and "Traceback" not in said
        assert [(path, path.read_bytes()) for path in (problem / "out3").iterdir()] == before
        assert not (problem / "out4").exists(), "the other one has not begun"
    assert train(*seeds) == 0
    for seed in seeds:
        left = {path.name for path in (problem / f"out{seed}").iterdir()}
        assert left == {"metrics.csv", "model.safetensors", "run.json"}


def test_a_run_is_not_made_again_where_another_trains(problem, capsys):
    assert train(3) == 0
    words = ["rerun", "out3", "--out", "again", "--dataset", "data"]
    capsys.readouterr()
    with lock.held("again"):
        assert cli.main(words) == 2
        assert "flatfed rerun: again: another process trains this run" in capsys.readouterr().err
        assert [path.name for path in (problem / "again").iterdir()] == [lock.NAME]
