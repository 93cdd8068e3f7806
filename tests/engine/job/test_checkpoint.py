"""Checkpoints: which one is trusted, its content, and when one is due."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, save

from flatfed.engine.job import checkpoint
from flatfed.engine.job.checkpoint import Checkpoint
from harness import IDENTITY, assert_same, description, interrupted_job, job, needs, simulation
from samples import sampled


def with_vectors(change):
    """Return a function that saves a checkpoint's content with changed vectors and the same manifest."""

    def changed(content):
        length = int.from_bytes(content[:8], "little")
        return save(change(load(content)), json.loads(content[8 : 8 + length])["__metadata__"])

    return changed


#: Kind of damage -> the file's content afterwards.
DAMAGED = {
    "cut short": lambda content: content[:-100],
    "a header": lambda content: content[:8] + b"x" * 40 + content[48:],
    "garbage": lambda content: b"\xff not a checkpoint",
    "of another program": lambda content: save(load(content)),
    "a vector is missing": with_vectors(lambda vectors: dict(list(vectors.items())[1:])),
    "a vector of another size": with_vectors(lambda vectors: {name: v[..., :-1] for name, v in vectors.items()}),
}
#: Difference of the run that wrote the checkpoint -> (of its settings, of its identity, in the message).
OTHER = {
    "other parameters": ({"learning_rate": 0.05}, {}, "it is of another run: learning_rate is 0.05, here 0.2"),
    "other code": ({}, {"versions": {"engine": 0}}, "it is of another run: another versions"),
    "other data": ({}, {"dataset_digest": "0"}, "it is of another run: another dataset"),
}
SAMPLE = ("cut short", "a vector is missing", "other parameters", "other code")


@pytest.mark.parametrize("kind", sampled({**DAMAGED, **OTHER}, SAMPLE))
def test_what_is_not_this_runs_whole_checkpoint_is_set_aside(tmp_path, monkeypatch, capsys, kind):
    whole, path = job(tmp_path, "fedsmoo", "whole"), tmp_path / "parts" / checkpoint.NAME
    settings, identity, reason = OTHER.get(kind, ({}, {}, "it cannot be read: "))
    with monkeypatch.context() as patch:
        init = Checkpoint.__init__
        other = lambda self, out, here, *more: init(self, out, replace(here, **identity), *more)  # noqa: E731
        patch.setattr(Checkpoint, "__init__", other)
        interrupted_job(patch, tmp_path, "fedsmoo", "parts", **settings)
    if kind in DAMAGED:
        path.write_bytes(DAMAGED[kind](path.read_bytes()))
    before, aside, finish = path.read_bytes(), [], Checkpoint.finish

    def noted(self, run):  # the end of the run removes what it set aside
        aside.append(path.with_name(checkpoint.STALE).read_bytes())
        finish(self, run)

    monkeypatch.setattr(Checkpoint, "finish", noted)
    capsys.readouterr()
    assert_same(job(tmp_path, "fedsmoo", "parts"), whole, [0])
    output = capsys.readouterr().err
    assert f"is set aside as {checkpoint.STALE}: {reason}" in output and "from the start" in output
    assert aside == [before]


@pytest.mark.parametrize("name", ["fedavg", "fedsmoo", "fedlesam", "dfedsam"])
def test_a_checkpoint_has_the_vectors_of_all_clients_that_participated(tmp_path, name):
    """As another reader of the format finds them: all nodes if models mix, otherwise one or two of six clients."""
    few = {"sampling": {"scheme": "fixed", "fraction": 0.34}}
    run = simulation(tmp_path, description(name, **{**needs(name), **few}))
    kept = Checkpoint(tmp_path, IDENTITY, run.config)
    clients, received = set(), {}
    for number in range(3):
        active = run.sample().tolist()
        clients.update(range(6) if run.topology else active)
        received |= dict.fromkeys(active, (number, run.server["w"].clone()))
        run.advance()
    size = kept.write(run)
    assert [path.name for path in tmp_path.glob(".*")] == [checkpoint.NAME]
    vectors = load_file(tmp_path / checkpoint.NAME)
    expected = {f"server.{key}": values for key, values in run.server.items()}
    for key, values in run.state.store.items():
        expected |= {f"client-{client}.{key}": values[client] for client in clients}
    if name == "fedlesam":
        expected |= {f"received-{number}": w for number, w in received.values()}
    assert vectors.keys() == expected.keys() and all(torch.equal(vectors[key], expected[key]) for key in vectors)
    assert size == sum(values.nbytes for values in expected.values())
    with safe_open(tmp_path / checkpoint.NAME, "pt") as file:
        assert json.loads(file.metadata()["manifest"])["simulation"]["round"] == 3


@pytest.mark.parametrize(
    ("seconds", "rounds"),
    [
        (1.0, [6, 12, 18, 24, 30]),  # every ten minutes
        (60.0, [6, 18, 30]),  # after 20 minutes: a minute more is 4.8 % of 21
    ],
)
def test_writing_takes_less_than_a_twentieth_of_the_time(tmp_path, monkeypatch, seconds, rounds):
    """A round takes 100 seconds, a checkpoint ``seconds``; the last round, 31, needs none."""
    run, now, written = simulation(tmp_path, description("fedavg", rounds=31)), [0.0], []
    write_tensors = checkpoint.write_tensors

    def slow(*arguments):
        now[0] += seconds
        written.append(run.round)
        return write_tensors(*arguments)

    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(checkpoint, "write_tensors", slow)
    kept = Checkpoint(tmp_path, IDENTITY, None)
    for run.round in range(1, 32):
        now[0] += 100.0
        kept.after_round(run, None)
    assert written == rounds
