"""Checkpoints: which one is trusted, the files of one, and when one is due."""

import json
from dataclasses import replace

import pytest
from safetensors.torch import load, save

from flatfed.engine.executors import EXECUTORS
from flatfed.engine.job import checkpoint
from flatfed.engine.job.checkpoint import Checkpoint
from flatfed.errors import DataError
from harness import IDENTITY, assert_same, description, interrupted_job, job, simulation
from samples import sampled

EARLIER = json.dumps({"sha256": "0", "content": {"index": {}, "files": {}, "about": {}}}).encode()
VECTORS, MANIFEST = "*.safetensors", checkpoint.MANIFEST

#: Kind of damage -> (the file, its content afterwards; None: it is removed).
DAMAGED = {
    "a file is cut short": (VECTORS, lambda content: content[:-100]),
    "a file is missing": (VECTORS, lambda content: None),
    "a header": (VECTORS, lambda content: content[:8] + b"x" * 40 + content[48:]),
    "a file of zeros": (VECTORS, lambda content: bytes(len(content))),
    "a vector is missing": (VECTORS, lambda content: save(dict(list(load(content).items())[1:]))),
    "a vector of another size": (VECTORS, lambda content: save({key: v[:-1] for key, v in load(content).items()})),
    "the manifest is cut short": (MANIFEST, lambda content: content[:-100]),
    "garbage": (MANIFEST, lambda content: b"\xff not a checkpoint"),
    "another JSON": (MANIFEST, lambda content: b"[]"),
    "of an earlier version": (MANIFEST, lambda content: EARLIER),
}
#: Difference of the run that wrote the checkpoint -> (of its settings, of its identity, in the message).
OTHER = {
    "other parameters": ({"learning_rate": 0.05}, {}, "it is of another run: learning_rate is 0.05, here 0.2"),
    "other code": ({}, {"versions": {"engine": 0}}, "it is of another run: another versions"),
    "other data": ({}, {"dataset_digest": "0"}, "it is of another run: another dataset"),
}
SAMPLE = ("a file is cut short", "a vector is missing", "garbage", *OTHER)


@pytest.mark.parametrize("kind", sampled({**DAMAGED, **OTHER}, SAMPLE))
def test_what_is_not_this_runs_whole_checkpoint_is_set_aside(tmp_path, monkeypatch, capsys, kind):
    whole, folder = job(tmp_path, "fedsmoo", "whole"), tmp_path / "parts" / checkpoint.FOLDER
    settings, identity, reason = OTHER.get(kind, ({}, {}, ""))
    with monkeypatch.context() as patch:
        init = Checkpoint.__init__
        other = lambda self, out, here, *more: init(self, out, replace(here, **identity), *more)  # noqa: E731
        patch.setattr(Checkpoint, "__init__", other)
        interrupted_job(patch, tmp_path, "fedsmoo", "parts", **settings)
    if kind in DAMAGED:
        pattern, change = DAMAGED[kind]
        path = sorted(folder.glob(pattern))[-1]
        content = change(path.read_bytes())
        path.unlink() if content is None else path.write_bytes(content)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    aside, finish = {}, Checkpoint.finish

    def noted(self, run):  # the end of the run removes what it set aside
        aside.update({path.name: path.read_bytes() for path in folder.with_name(checkpoint.STALE).iterdir()})
        finish(self, run)

    monkeypatch.setattr(Checkpoint, "finish", noted)
    capsys.readouterr()
    assert_same(job(tmp_path, "fedsmoo", "parts"), whole, [0])
    output = capsys.readouterr().err
    assert f"is set aside as {checkpoint.STALE}: {reason}" in output and "from the start" in output
    assert aside == before


def test_a_checkpoint_of_a_removed_executor_stays(tmp_path, monkeypatch):
    interrupted_job(monkeypatch, tmp_path, "fedavg", "run")
    folder = tmp_path / "run" / checkpoint.FOLDER
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.delitem(EXECUTORS, "stacked")
    with pytest.raises(DataError, match=rf"^{folder}: this version has no executor 'stacked'; .*remove this folder"):
        job(tmp_path, "fedavg", "run")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("name", ["fedsmoo", "fedlesam"])
def test_a_checkpoint_has_a_file_for_each_client_and_writes_only_changed_ones(tmp_path, name):
    spec = description(name, sampling={"scheme": "fixed", "fraction": 0.34})
    run, kept = simulation(tmp_path, spec), Checkpoint(tmp_path, IDENTITY)
    stateful, before = bool(run.state.store), {}
    for _ in range(6):
        clients = {f"client-{client}" for client in run.sample()} if stateful else set()
        run.advance()
        kept.write(run)
        files = {path.name: path.stat().st_mtime_ns for path in (tmp_path / checkpoint.FOLDER).glob("*.safetensors")}
        keys = [file.partition(".")[0] for file in files]
        new = {file.partition(".")[0] for file in files.keys() - before.keys()}
        assert all(files[file] == before[file] for file in files.keys() & before.keys())
        assert {key for key in new if key.startswith("client-")} == clients
        assert sum(key.startswith("client-") for key in keys) == run.state.touched.sum() * stateful
        rounds = run.state.received.snapshots if run.state.received else ()
        assert sum(key.startswith("received-") for key in keys) == len(rounds)
        assert set(kept.files.values()) == set(files)
        before = files


WAITS = {"checkpoint_every": 100, "rounds": 8, "sampling": {"scheme": "fixed", "fraction": 0.34}}
SLOW = {"GRACE": float("inf"), "SHORT": 0.02, "SPEED": 1.0}
FAST = {"GRACE": float("inf"), "SHORT": 0.0, "SPEED": 1e12, "SHARE": 1e-3}


@pytest.mark.parametrize(
    ("name", "changes", "limits", "rounds"),
    [
        ("fedsmoo", WAITS, {"GRACE": 0.0}, [*range(1, 8)]),  # the rows of two rounds would take longer than a grace
        ("fedavg", WAITS, {"GRACE": 0.0}, []),  # no rows
        ("dfedsam", {**WAITS, "sampling": {"scheme": "all"}}, {"GRACE": 0.0}, []),  # every round changes all rows
        ("fedsmoo", {"checkpoint_every": 1}, SLOW, []),  # clients' vectors on a slow disk
        ("fedadam", {"checkpoint_every": 1}, SLOW, []),  # the server's alone
        ("fedsmoo", {"checkpoint_every": 1}, {**SLOW, "SHARE": float("inf")}, [1, 2, 3]),
        ("fedsmoo", {"checkpoint_every": 1}, FAST, [1]),  # the seconds of the first one count
    ],
)
def test_planned_checkpoints_take_a_small_share_of_the_time(tmp_path, monkeypatch, name, changes, limits, rounds):
    """On a GPU, rounds are shorter than the writing of vectors; but vectors must be written within a signal's grace."""
    for constant, value in limits.items():
        monkeypatch.setattr(checkpoint, constant, value)
    written, write = [], Checkpoint.write
    monkeypatch.setattr(Checkpoint, "write", lambda self, run: (written.append(run.round), write(self, run))[1])
    job(tmp_path, name, "run", **changes)
    assert written == rounds
