"""Finished runs for analyses: damaged ones are refused and nothing is written; one that diverged has no numbers."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from flatfed import cli
from flatfed.analysis import trained_model
from flatfed.analysis.trained_model import AnalysisInputs
from flatfed.errors import DataError
from flatfed.runs import curvature, landscape_file
from made import recorded

INPUTS = AnalysisInputs("data", "partition.npz", device="cpu")
DATA = ["--dataset", "data", "--partition", "partition.npz", "--device", "cpu"]


@pytest.mark.parametrize("weights", ["wild", "single"])
def test_a_run_that_diverged_by_its_record_has_files_without_numbers(problem, capsys, weights):
    """Its loss may have stopped being finite before its weights did."""
    shutil.copytree(weights, "weights")
    shutil.copy("weights/model.safetensors", "wild/model.safetensors")
    recorded("wild")
    when = json.loads(Path("wild/run.json").read_text())["diverged_at"]
    assert cli.main(["hessian", "wild", *DATA, "--out", "h.json", "--top", "1"]) == 0
    hessian, output = curvature.read("h.json"), capsys.readouterr().err
    assert when is not None and hessian.about.diverged_at == when and f"diverged in round {when}" in output
    assert hessian.about.run == "problem/test/fedavg/seed3" and hessian.about.images == 49
    assert hessian.unscaled is hessian.scaled is hessian.pyhessian is None
    assert cli.main(["surface", "wild", *DATA, "--out", "s.npz", "--grid", "3", "--images", "all"]) == 0
    surface = landscape_file.read("s.npz")
    assert surface.loss.shape == (1, 3, 3) and surface.x.tolist() == [-1, 0, 1] and surface.about.images == 49
    assert np.isnan(surface.loss).all() and np.isnan(surface.accuracy).all()
    assert surface.about.models[0].diverged_at == when
    assert "problem/test/fedavg/seed3: surface: diverged, so without losses" in capsys.readouterr().err
    assert not [path for path in problem.iterdir() if path.name.startswith(".")]


def weights_changed(change):
    """Return a function that changes the tensors of the run."""

    def changed():
        tensors = load_file("run/model.safetensors")
        change(tensors)
        save_file(tensors, "run/model.safetensors")
        recorded("run")

    return changed


WIDE = torch.ones(3, 5, dtype=torch.float64)
MODEL, RECORD = Path("run/model.safetensors"), Path("run/run.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (weights_changed(lambda tensors: tensors.pop("conv1.bias")), r"safetensors: does not fit.*Missing key.*conv1"),
        (weights_changed(lambda tensors: tensors.update({"dense.weight": WIDE})), r"dense.weight: .*\[3, 5\].*\[3, 64"),
        (lambda: (MODEL.write_bytes(b"x" * 99), recorded("run")), r"model.safetensors: cannot be read as a model"),
        (MODEL.unlink, r"model.safetensors: cannot be read"),
        (RECORD.unlink, r"not a finished run: it has no run.json"),
        (lambda: recorded("run", lambda record: record.update(partition_digest="0" * 64)), "not the partition of"),
    ],
)
def test_runs_that_cannot_be_analysed(problem, change, message):
    change()
    with pytest.raises(DataError, match=message):
        trained_model.load(Path("run"), INPUTS)


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (curvature.read, None, "no such Hessian; flatfed hessian makes it"),
        (curvature.read, b"[]", "not a Hessian"),
        (landscape_file.read, None, "no such loss surface"),
        (landscape_file.read, b"no", "cannot be read as a loss surface"),
    ],
)
def test_results_that_are_absent_or_cannot_be_read(tmp_path, read, content, message):
    path = tmp_path / "result"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=f"^{path}: {message}"):
        read(path)


def test_a_partition_without_test_images(problem):
    found = trained_model.load(Path("run"), INPUTS)
    empty = replace(found, partition=replace(found.partition, test=np.zeros(0, dtype=np.int64)))
    with pytest.raises(DataError, match="has no test images"):
        empty.draw_images("test", None, 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("hessian --out h.npz", "'h.npz': expected a file that ends in .json"),
        ("hessian --out h.json --images 0", "'0': expected a whole number above 0"),
        ("surface --out s.png", "'s.png': expected a file that ends in .npz"),
        ("surface --out s.npz --set trian", "unknown value 'trian'; did you mean 'train'"),
        ("surface --out s.npz --grid 1", "grid: 1 points: expected an odd number from 3"),
        ("surface --out s.npz --range 0", "range: 0.0: expected a finite number, more than 0"),
    ],
)
def test_the_command_line_refuses(problem, words, message, capsys):
    command, *options = words.split()
    before = sorted(problem.iterdir())
    try:
        status = cli.main([command, "run", *DATA, *options])
    except SystemExit as end:
        status = end.code
    assert status == cli.REFUSED and message in capsys.readouterr().err
    assert sorted(problem.iterdir()) == before
