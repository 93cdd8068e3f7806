"""A run that diverged has a Hessian file and a surface that say so, and nothing beside it is held up."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from flatfed import cli
from flatfed.analysis.landscape import landscape_file, loss_surface
from flatfed.analysis.landscape.loss_surface import SurfaceSettings
from flatfed.analysis.trained_model import AnalysisInputs
from flatfed.engine.job.train import train
from flatfed.errors import FlatFedError
from flatfed.runs import curvature
from flatfed.runs.run_config import RunConfig
from harness import description, write_problem
from made import recorded

DATA = ["--dataset", "data", "--partition", "partition.npz", "--device", "cpu"]
INPUTS = AnalysisInputs("data", "partition.npz", device="cpu")
SETTINGS = SurfaceSettings(grid=3, range=1.0, set="train", images=4096, seed=0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """Runs: a good one, and one whose first step is so long that its weights are no numbers any more."""
    folder = tmp_path_factory.mktemp("diverged")
    write_problem(folder)
    for name, rate in (("good", 0.2), ("wild", 1e200)):
        spec = description("fedavg", rounds=2, learning_rate=rate, clip_norm=None, split=name)
        train(RunConfig(**spec), folder / "data", folder / "partition.npz", folder / name, device="cpu")
    assert json.loads((folder / "wild" / "run.json").read_text())["diverged_at"] is not None
    assert not all(tensor.isfinite().all() for tensor in load_file(folder / "wild" / "model.safetensors").values())
    return folder


@pytest.fixture
def problem(trained, tmp_path, monkeypatch) -> Path:
    folder = Path(shutil.copytree(trained, tmp_path / "problem"))
    monkeypatch.chdir(folder)
    return folder


def test_the_hessian_of_a_diverged_run_says_so(problem, capsys):
    assert cli.main(["hessian", "wild", *DATA, "--out", "h.json", "--top", "1"]) == 0
    found = curvature.read("h.json")
    when = json.loads(Path("wild/run.json").read_text())["diverged_at"]
    assert found.about.diverged_at == when and f"diverged in round {when}" in capsys.readouterr().err
    assert found.about.run == "problem/wild/fedavg/seed3" and found.about.images == 49
    assert found.unscaled is found.scaled is found.pyhessian is found.agreement is None and found.warnings == []
    assert not [path for path in problem.iterdir() if path.name.startswith(".")]


def test_a_hessian_of_another_run_has_the_same_fields(problem):
    for run in ("wild", "good"):
        few = ["--top", "1", "--vectors", "4", "--without-pyhessian"]
        assert cli.main(["hessian", run, *DATA, "--out", f"{run}.json", *few]) == 0
    wild, good = (json.loads(Path(f"{run}.json").read_text()) for run in ("wild", "good"))
    assert wild.keys() == good.keys()
    assert wild["top_eigenvalue"] is wild["eigenvalues"] is wild["scaled"] is wild["pyhessian"] is None
    assert curvature.read("good.json").about.diverged_at is None


def test_a_run_counts_as_diverged_by_its_record_whatever_its_weights_are(problem):
    """Its loss may have stopped being finite before its weights did; accuracy cells go by the record too."""
    shutil.copy("good/model.safetensors", "wild/model.safetensors")
    recorded("wild")
    assert cli.main(["hessian", "wild", *DATA, "--out", "h.json"]) == 0
    assert curvature.read("h.json").unscaled is None
    assert cli.main(["surface", "wild", *DATA, "--out", "s.npz", "--grid", "3"]) == 0
    assert np.isnan(landscape_file.read("s.npz").loss).all()


def test_a_surface_of_a_diverged_run_has_no_losses_and_says_why(problem, capsys):
    assert cli.main(["surface", "wild", *DATA, "--out", "s.npz", "--grid", "3"]) == 0
    found = landscape_file.read("s.npz")
    assert found.loss.shape == (1, 3, 3) and np.isnan(found.loss).all() and np.isnan(found.accuracy).all()
    assert found.about.models[0].diverged_at is not None and found.x.tolist() == [-1, 0, 1]
    assert "diverged, so without losses: problem/wild/fedavg/seed3" in capsys.readouterr().err
    assert not [path for path in problem.iterdir() if path.name.startswith(".")]


def test_a_record_that_does_not_say_whether_its_run_diverged_is_none(problem):
    recorded("good", lambda record: record.pop("diverged_at"))
    with pytest.raises(FlatFedError, match=r"run\.json: not the record of a run \(key 'diverged_at' is missing;"):
        loss_surface.surface(Path("good"), INPUTS, Path("s.npz"), SETTINGS)
