"""Files that were truncated or altered after they were made stop a training before its first round; mended, it runs."""

import json

import numpy as np
import pytest
from harness import description, write_problem

from flatfed import cli
from flatfed.files import read_json, write_json

DATA = "/data: the arrays are not those dataset.json describes; delete the folder to make it again"
UNREADABLE = "; delete the folder to make it again"


@pytest.fixture
def problem(tmp_path):
    write_problem(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(description("fedavg", precision="float32", rounds=2)))
    return tmp_path


def call(command, problem, *more):
    """Call the command; return its exit status."""
    data = ["--dataset", str(problem / "data"), "--partition", str(problem / "partition.npz")]
    return cli.main([command, *more, *data, "--device", "cpu"])


def train(problem):
    return call("train", problem, "--run", str(problem / "run.json"), "--out", str(problem / "out"))


def flip(path, place=-8):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def another_label(path):
    labels = np.load(path)
    labels[0] = (labels[0] + 1) % 3
    np.save(path, labels)


def other_digest(path):
    write_json(path, {**read_json(path), "digest": "0" * 64})


@pytest.mark.parametrize(
    ("file", "damage", "words"),
    [
        ("data/images.npy", flip, DATA),
        ("data/images.npy", cut, UNREADABLE),
        ("data/labels.npy", another_label, DATA),
        ("data/labels.npy", cut, UNREADABLE),
        ("data/dataset.json", other_digest, "was dealt from other data than"),
        ("data/dataset.json", cut, UNREADABLE),
        ("data/images.npy", lambda path: path.unlink(), UNREADABLE),
        ("partition.npz", cut, "delete it to make it again"),
        ("partition.npz", lambda path: flip(path, 200), "delete it to make it again"),
    ],
)
def test_a_training_refuses_and_says_what_to_do(problem, capsys, file, damage, words):
    path = problem / file
    whole = path.read_bytes()
    damage(path)
    assert train(problem) == 2
    said = capsys.readouterr().err
    assert said.startswith("flatfed train: ") and words in said and "Traceback" not in said
    assert not (problem / "out").exists()
    path.write_bytes(whole)
    assert train(problem) == 0


def test_so_does_everything_that_reads_the_data_again(problem, capsys):
    assert train(problem) == 0
    flip(problem / "data/images.npy")
    for command, more in (
        ("hessian", ("--out", str(problem / "hessian.json"))),
        ("surface", ("--out", str(problem / "surface.npz"))),
    ):
        capsys.readouterr()
        assert call(command, problem, str(problem / "out"), *more) == 2
        assert DATA in capsys.readouterr().err
    assert not (problem / "hessian.json").exists() and not (problem / "surface.npz").exists()
