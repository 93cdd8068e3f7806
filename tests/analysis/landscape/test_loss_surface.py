"""What no loss surface can be made of: one clear message each, and nothing written."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from flatfed import cli
from flatfed.analysis import trained_model
from flatfed.analysis.landscape import landscape_file, loss_surface
from flatfed.analysis.landscape.loss_surface import SurfaceSettings
from flatfed.analysis.trained_model import AnalysisInputs
from flatfed.engine.job.train import train
from flatfed.errors import DataError, FlatFedError
from flatfed.runs.run_config import RunConfig
from harness import description, write_problem
from made import landscape_about, landscape_model, recorded

SETTINGS = {"grid": 3, "range": 1.0, "set": "train", "images": 4096, "seed": 0}


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("refusals")
    write_problem(folder)
    spec = description("fedavg", rounds=1)
    train(RunConfig(**spec), folder / "data", folder / "partition.npz", folder / "run", device="cpu")
    return folder


@pytest.fixture
def problem(trained, tmp_path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(trained, tmp_path / "problem"))


def inputs(problem: Path) -> AnalysisInputs:
    return AnalysisInputs(problem / "data", problem / "partition.npz", device="cpu")


def change_model(run: Path, change) -> None:
    tensors = load_file(run / "model.safetensors")
    change(tensors)
    save_file(tensors, run / "model.safetensors")
    recorded(run)


def change_record(run: Path, change) -> None:
    recorded(run, change)


def refused(problem: Path, message: str, **settings) -> None:
    """Assert that the call is refused with ``message`` and leaves no file."""
    out = problem / "out" / "s.npz"
    with pytest.raises(FlatFedError, match=message):
        loss_surface.surface(problem / "run", inputs(problem), out, SurfaceSettings(**{**SETTINGS, **settings}))
    assert not out.parent.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("conv1.bias"), r"safetensors: does not fit its run, of model 'cnn_tiny' .*Missing key.*conv1"),
        (lambda t: t.update(extra=torch.ones(1)), r"Unexpected key.*extra"),
        (
            lambda t: t.update({"dense.weight": torch.ones(3, 5, dtype=torch.float64)}),
            r"dense.weight: .*\[3, 5\].*\[3, 64\]",
        ),
        (lambda t: t["conv2.weight"][0].fill_(torch.nan), "72 of 1152 .* not finite, although the run did not diverge"),
    ],
    ids=["lacks", "has another", "shape", "nan"],
)
def test_a_model_file_that_does_not_fit(problem, change, message):
    change_model(problem / "run", change)
    refused(problem, message)


def test_files_that_are_absent_or_damaged(problem):
    model = problem / "run" / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-10])
    refused(problem, "model.safetensors: is not the file that run.json next to it describes")
    recorded(problem / "run")
    refused(problem, "model.safetensors: cannot be read as a model")
    model.unlink()
    refused(problem, "model.safetensors: cannot be read")
    (problem / "run" / "run.json").write_text("{")
    refused(problem, "run.json: not the record of a run")
    (problem / "run" / "run.json").write_text("[]")
    refused(problem, "run.json: not the record of a run")
    (problem / "run" / "run.json").unlink()
    refused(problem, "not a finished run: it has no run.json")


@pytest.mark.parametrize("key", ["dataset", "partition"])
def test_data_of_another_run(problem, key):
    change_record(problem / "run", lambda record: record.update({f"{key}_digest": "0" * 64}))
    refused(problem, f"not the {key} of .*run was made with 000000000000")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"grid": 1}, "grid: 1 points: expected an odd number from 3"),
        ({"grid": 10}, "grid: 10 points: expected an odd number from 3"),
        ({"range": 0.0}, "range: 0.0: expected a finite number, more than 0"),
        ({"range": -1.0}, "range: -1.0: expected"),
        ({"range": float("nan")}, "range: nan: expected"),
    ],
)
def test_settings_that_mean_nothing(problem, settings, message):
    refused(problem, message, **settings)


def test_a_partition_without_test_images(problem):
    found = trained_model.load(problem / "run", inputs(problem))
    empty = replace(found, partition=replace(found.partition, test=np.zeros(0, dtype=np.int64)))
    with pytest.raises(DataError, match="has no test images"):
        empty.draw_images("test", None, 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "s.png"], "'s.png': expected a file that ends in .npz"),
        (["--out", "s.npz", "--images", "0"], "'0': expected a whole number above 0"),
        (["--out", "s.npz", "--seed", "-1"], "'-1': expected a whole number from 0 to"),
        (["--out", "s.npz", "--set", "trian"], "unknown value 'trian'; did you mean 'train'"),
    ],
)
def test_the_command_line_refuses(problem, words, message, capsys, monkeypatch):
    monkeypatch.chdir(problem)
    call = ["surface", "run", "--dataset", "data", "--partition", "partition.npz", "--grid", "3", *words]
    try:
        status = cli.main(call)
    except SystemExit as end:
        status = end.code
    assert status == 2 and message in capsys.readouterr().err
    assert not list(problem.glob("*.npz.*")) and not (problem / "s.npz").exists()


def test_the_command_line_makes_a_surface(problem, monkeypatch):
    monkeypatch.chdir(problem)
    data = ["--dataset", "data", "--partition", "partition.npz", "--device", "cpu"]
    assert cli.main(["surface", "run", *data, "--grid", "3", "--out", "s.npz", "--images", "all"]) == 0
    found = landscape_file.read("s.npz")
    assert found.loss.shape == (1, 3, 3) and found.x.tolist() == [-1, 0, 1] and found.about.images == 49


def test_damaged_surfaces_are_named(tmp_path):
    path = tmp_path / "s.npz"
    with pytest.raises(DataError, match=r"s.npz: no such loss surface"):
        landscape_file.read(path)
    path.write_bytes(b"no")
    with pytest.raises(DataError, match=r"s.npz: cannot be read as a loss surface"):
        landscape_file.read(path)
    np.savez(
        path, format=np.array(1), kind=np.array("surface"), about=np.array("{}"), **dict.fromkeys("xy", np.zeros(3))
    )
    with pytest.raises(DataError, match=r"s.npz: cannot be read .*format 1, but 3 is known\); delete it; the next"):
        landscape_file.read(path)
    about = landscape_about([landscape_model("a")])
    landscape_file.write(
        path, landscape_file.Landscape(about, *[np.zeros(3)] * 2, *[np.zeros((2, 3, 3))] * 2)
    )
    with pytest.raises(DataError, match=r"s.npz: a surface with losses of shape \(2, 3, 3\), not \(1, 3, 3\)"):
        landscape_file.read(path)
