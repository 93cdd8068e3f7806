"""Loss surfaces: every point against a forward pass by hand, directions by their definition."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy
from torch.nn.utils import vector_to_parameters

from flatfed import models
from flatfed.algorithms._layout import Layout
from flatfed.analysis import loss_surface, trained_model
from flatfed.analysis.loss_surface import SurfaceSettings, draw_directions
from flatfed.analysis.trained_model import AnalysisInputs
from flatfed.data.streams import stream
from flatfed.errors import Shortage
from flatfed.files import digest_arrays
from flatfed.runs.landscape_file import read
from harness import ERRORS, Reference, description, job, lines
from made import recorded

EVALUATION = {"every": 1, "sets": ["test", "train"], "batch_size": 7}
SETTINGS = {"grid": 5, "range": 0.5, "set": "train", "images": None, "seed": 0}


@pytest.fixture(scope="module")
def problem(tmp_path_factory) -> Path:
    """A folder with data, partition, and runs: a in float64, single in float32."""
    folder = tmp_path_factory.mktemp("surface")
    for name, precision in (("a", "float64"), ("single", "float32")):
        job(folder, "fedavg", name, precision=precision, evaluation=EVALUATION)
    return folder


def make(problem: Path, out: Path, run: str, **settings):
    """Make the surface of ``run`` and read it."""
    inputs = AnalysisInputs(problem / "data", problem / "partition.npz", device="cpu")
    loss_surface.surface(problem / run, inputs, out, SurfaceSettings(**{**SETTINGS, **settings}))
    return read(out)


MODEL = models.build("cnn_tiny", (1, 8, 8), 3, {})
LAYOUT = Layout.of(MODEL)


def row(problem: Path) -> torch.Tensor:
    """Return the weights that run a ended with."""
    tensors = load_file(problem / "a" / "model.safetensors")
    return torch.cat([tensors[name].reshape(-1) for name in LAYOUT.names])


def by_hand(problem: Path, weights: torch.Tensor, index: np.ndarray) -> tuple[float, float]:
    """Loss and accuracy by one forward pass of the whole set."""
    reference = Reference(problem, description("fedavg", evaluation=EVALUATION))
    vector_to_parameters(weights, reference.model.parameters())
    with torch.no_grad():
        logits, labels = reference.model(reference.x[index]), reference.y[index]
    return cross_entropy(logits, labels).item(), (logits.argmax(dim=1) == labels).double().mean().item()


def test_the_middle_is_the_loss_that_the_run_evaluated(problem, tmp_path):
    """In float32, of both sets."""
    last = lines(problem / "single")[-1]
    for which, loss in (("train", "full_train_loss"), ("test", "test_loss")):
        found = make(problem, tmp_path / f"{which}.npz", "single", set=which)
        assert found.loss[0, 2, 2] == pytest.approx(float(last[loss]), abs=1e-6)
        assert found.accuracy[0, 2, 2] == float(last[f"{which}_accuracy"])


def test_every_point_by_hand(problem, tmp_path):
    found = make(problem, tmp_path / "s.npz", "a", grid=3, seed=4)
    first, second = draw_directions(LAYOUT, row(problem), 4)
    dealt, axis = np.load(problem / "partition.npz")["indices"], [-0.5, 0.0, 0.5]
    points = [[by_hand(problem, row(problem) + x * first + y * second, dealt) for y in axis] for x in axis]
    np.testing.assert_allclose(np.stack([found.loss[0], found.accuracy[0]], axis=-1), points, rtol=1e-12)
    assert found.x.tolist() == found.y.tolist() == axis
    assert np.ptp(found.loss) > 0.01 and found.about.images == len(dealt)


def test_a_model_whose_filters_are_all_scaled_has_the_same_surface_by_its_own(problem, tmp_path):
    """Li et al. 2018, section 4: the logits of a model without biases, its layers scaled by c and 1 / c, are the same.

    By its own filters so is its surface.
    """
    for name, factors in (("plain", (1.0, 1.0)), ("scaled", (4.0, 0.25))):
        shutil.copytree(problem / "a", tmp_path / name)
        tensors = load_file(tmp_path / name / "model.safetensors")
        tensors = {key: value * 0 if value.ndim == 1 else value for key, value in tensors.items()}
        for layer, factor in zip(("conv1.weight", "conv2.weight"), factors, strict=True):
            tensors[layer] = tensors[layer] * factor
        save_file(tensors, tmp_path / name / "model.safetensors")
        recorded(tmp_path / name)
    (tmp_path / "data").symlink_to(problem / "data")
    (tmp_path / "partition.npz").symlink_to(problem / "partition.npz")
    plain, scaled = (make(tmp_path, tmp_path / f"{run}.npz", run) for run in ("plain", "scaled"))
    np.testing.assert_allclose(scaled.loss, plain.loss, rtol=1e-12)


def test_a_subset_is_drawn_by_the_seed_alone(problem, tmp_path):
    dealt = np.load(problem / "partition.npz")["indices"]
    drawn = np.sort(stream(2, "subset").choice(dealt, 9, replace=False))
    subsets = [("a", 9, 2, drawn), ("single", 9, 2, drawn), ("a", 10_000, 0, np.sort(dealt))]
    for number, (run, images, seed, index) in enumerate(subsets):
        found = make(problem, tmp_path / f"{number}.npz", run, images=images, grid=3, seed=seed)
        assert (found.about.images, found.about.images_sha256) == (len(index), digest_arrays(images=index))
        assert found.loss[0, 1, 1] == pytest.approx(by_hand(problem, row(problem), index)[0], rel=1e-5)


def test_memory_that_ends_before_the_first_point_is_told(problem, tmp_path, monkeypatch):
    def full(*_, **__):
        raise ERRORS["in numpy"]

    monkeypatch.setattr(trained_model, "load", full)
    with pytest.raises(Shortage, match=r"surface .*a: not enough memory on cpu.*8.00 GiB more .*or `device: cpu`"):
        make(problem, tmp_path / "s.npz", "a")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_directions_are_orthogonal_in_every_filter_and_as_long_as_it(dtype):
    weights = models.initial_weights(MODEL, torch.Generator().manual_seed(1)).to(dtype)
    drawn = draw_directions(LAYOUT, weights, 0)
    assert all(direction.dtype == dtype for direction in drawn)
    tensors, first, second = (LAYOUT.views(value.double()) for value in (weights, *drawn))
    for tensor, shape in zip(LAYOUT.names, LAYOUT.shapes, strict=True):
        a, b, w = (value[tensor].reshape(shape[0], -1) for value in (first, second, tensors))
        norm = w.norm(dim=1) * (len(shape) > 1)
        for direction in (a, b):
            torch.testing.assert_close(direction.norm(dim=1), norm, rtol=1e-6, atol=0)
        assert ((a * b).sum(dim=1).abs() <= 1e-6 * norm.square()).all()


def test_models_of_one_shape_see_the_same_draw():
    weights = [torch.randn(LAYOUT.size, generator=torch.Generator().manual_seed(seed)).double() for seed in (1, 2)]
    filters = [
        draw_directions(LAYOUT, row, seed)[0][LAYOUT.slices()["conv2.weight"]].reshape(16, -1)
        for row, seed in ((weights[0], 7), (weights[1], 7), (weights[0], 8))
    ]
    first, other_model, other_seed = (rows / rows.norm(dim=1, keepdim=True) for rows in filters)
    torch.testing.assert_close(first, other_model)
    assert not torch.allclose(first, other_seed)


def test_filters_without_length_or_room():
    layout = Layout(("single", "rows"), ((3, 1), (2, 4)))
    first, second = draw_directions(layout, torch.tensor([1.0, -2, 0, *[0.0] * 4, *[1.0] * 4]), 0)
    assert first[:3].abs().tolist() == [1, 2, 0] and not second[:3].any()
    assert not first[3:7].any() and not second[3:7].any()
    assert first[7:].norm().item() == pytest.approx(2) and second[7:].norm().item() == pytest.approx(2)
