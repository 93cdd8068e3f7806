"""Files that were altered stop a training before its first round, or whatever would read them; mended, it runs."""

import json

import numpy as np
import pytest

import made
from flatfed import cli
from flatfed.analysis.landscape import landscape_file
from flatfed.errors import DataError
from flatfed.files import SEAL, digest_arrays, read_json, write_json
from flatfed.runs import curvature, timing
from flatfed.runs import record as records
from flatfed.tables.readings import read_history
from harness import description, write_problem

DATA = "/data: the arrays are not those of dataset.json; delete the folder to fetch it again"
UNREADABLE = "; delete the folder to fetch it again"


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


def sealed(path):
    """Seal a partition as ``flatfed partition`` does."""
    arrays = dict(np.load(path))
    np.savez(path, **arrays, sha256=np.array(digest_arrays(**arrays)))


def edit(**changes):
    """Return a function that edits arrays of a partition and keeps its seal, if any."""

    def change(path):
        arrays = dict(np.load(path))
        np.savez(path, **{**arrays, **{name: edited(arrays[name]) for name, edited in changes.items()}})

    return change


def other_digest(path):
    write_json(path, {**read_json(path), "digest": "0" * 64})


@pytest.mark.parametrize(
    ("file", "damage", "words"),
    [
        ("data/images.npy", flip, DATA),
        ("data/images.npy", cut, UNREADABLE),
        ("data/labels.npy", another_label, DATA),
        ("data/labels.npy", cut, UNREADABLE),
        ("data/dataset.json", other_digest, "made from other data than"),
        ("data/dataset.json", cut, UNREADABLE),
        ("data/images.npy", lambda path: path.unlink(), UNREADABLE),
        ("partition.npz", cut, "delete it to rebuild it"),
        ("partition.npz", lambda path: flip(path, 200), "delete it to rebuild it"),
        ("partition.npz", edit(indices=lambda array: array[::-1]), "class_counts are not those of the labels"),
        ("partition.npz", edit(test=lambda array: array - array.min()), "test is not the test images"),
        ("partition.npz", edit(class_counts=lambda array: array[:, ::-1]), "class_counts are not those of the labels"),
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


def test_a_training_refuses_an_edited_sealed_partition(problem, capsys):
    path = problem / "partition.npz"
    sealed(path)
    content = path.read_bytes()
    edit(class_counts=lambda array: array[:, ::-1])(path)
    assert train(problem) == 2 and "changed after it was written: its sha256 is not" in capsys.readouterr().err
    path.write_bytes(content)
    assert train(problem) == 0


def write_landscape(path):
    about = made.landscape_about([made.landscape_model("fedavg")])
    axis, values = np.linspace(-1, 1, 5), np.ones((1, 5, 5))
    landscape_file.write(path, landscape_file.Landscape(about, axis, axis, values, values))


def change(path, seal, changes):
    """Edit a file of JSON or arrays; without ``changes``, take its ``seal`` away."""
    if path.suffix == ".json":
        content = read_json(path)
    else:
        with np.load(path, allow_pickle=False) as file:
            content = dict(file)
    assert seal in content
    content |= changes
    if not changes:
        del content[seal]
    write_json(path, content) if path.suffix == ".json" else np.savez_compressed(path, **content)


#: File -> its writer, its reader, its seal, and an edit.
SEALED = {
    "hessian.json": (lambda path: made.written(path, made.hessian(1.0, 9.0)), curvature.read, SEAL, {"trace": 8.0}),
    "timing.json": (lambda path: made.timing(path, {"seed": 1}, 2.0), timing.read, SEAL, {"seconds_per_round": 1.0}),
    "run.json": (lambda path: made.run(path.parent, {"round": [1]}), records.read, SEAL, {"seconds": 1.0}),
    "surface.npz": (write_landscape, landscape_file.read, "sha256", {"loss": np.zeros((1, 5, 5))}),
}


@pytest.mark.parametrize("edited", [True, False], ids=["edited", "without its seal"])
@pytest.mark.parametrize("name", SEALED)
def test_a_result_that_is_not_as_it_was_written_is_refused_by_name(tmp_path, name, edited):
    write, read, seal, changes = SEALED[name]
    path = made.place(tmp_path) / name
    path.parent.mkdir(parents=True)
    write(path)
    read(path)
    change(path, seal, changes if edited else {})
    with pytest.raises(DataError, match=rf"{name}: .*{seal}.*; (delete it|rebuild it|restore the original file)"):
        read(path)


def test_a_surface_of_before_the_seals_is_refused(tmp_path):
    path = tmp_path / "surface.npz"
    write_landscape(path)
    change(path, "sha256", {"format": np.array(2)})
    change(path, "sha256", {})
    with pytest.raises(DataError, match="format 2, but 3 is known"):
        landscape_file.read(path)


@pytest.mark.parametrize(
    ("rounds", "words"), [([2, 1, 2], "line 3: round 1 after round 2"), ([1, 2, 2], "line 4: round 2 after round 2")]
)
def test_rounds_that_do_not_increase_are_refused(tmp_path, rounds, words):
    folder = made.place(tmp_path)
    made.run(folder, {"round": rounds, "test_accuracy": [0.1, 0.2, 0.3]})
    with pytest.raises(DataError, match=rf"metrics\.csv: {words}"):
        read_history(folder, records.read_finished(folder), ("round", "test_accuracy"))
