"""Hessians where something is lacking: memory, a parameter in the loss, a place for PyHessian."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from test_measure import exact, make
from torch import nn
from torch.nn.functional import cross_entropy

from flatfed import models
from flatfed.analysis.hessian import eigen, estimates, pyhessian_estimates, vector_products
from flatfed.analysis.hessian import measure as hessians
from flatfed.analysis.hessian.vector_products import HessianProducts
from flatfed.engine.job.train import train
from flatfed.errors import Shortage
from flatfed.runs.curvature import AtOnce
from flatfed.runs.run_config import RunConfig
from harness import ERRORS, description, draw_of_signs, seeded, split_images, write_problem


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("lacking")
    write_problem(folder)
    train(
        RunConfig(**description("fedavg", rounds=1)),
        folder / "data",
        folder / "partition.npz",
        folder / "run",
        device="cpu",
    )
    return folder


class Short:
    """A loss without memory for more than ``most`` images."""

    def __init__(self, most: int, error: Exception = ERRORS["on a GPU"]):
        self.most, self.error = most, error

    def __call__(self, outputs, targets):
        if len(targets) > self.most:
            raise self.error
        return cross_entropy(outputs, targets)


def products(loss) -> HessianProducts:
    batches = split_images((6,), 3)  # eleven images in batches of 4, 4 and 3
    return HessianProducts(seeded(nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))), loss, batches, 4)


def test_other_errors_are_not_hidden():
    with pytest.raises(RuntimeError, match="shapes do not match"):
        products(Short(0, RuntimeError("shapes do not match")))(torch.ones(1, 43).double())


@pytest.mark.parametrize("kind", ERRORS)
def test_memory_that_does_not_last_is_refused_and_fewer_images_a_graph_help(trained, tmp_path, monkeypatch, kind):
    """The remedy that the message names gives the numbers of another block up to rounding."""
    out = tmp_path / "out" / "h.json"
    with monkeypatch.context() as patch:
        patch.setattr(hessians, "cross_entropy", Short(3, ERRORS[kind]))
        with pytest.raises(Shortage, match=r"Hessian of .*run: not enough memory on cpu .*a smaller --micro-batch"):
            make(trained, out)
        assert not out.exists()
        short = make(trained, out, micro_batch=3)
    plain = make(trained, tmp_path / "plain.json")
    assert (plain.at_once, short.at_once) == (AtOnce(images=128, vectors=4), AtOnce(images=3, vectors=4))
    assert plain.unscaled.top_eigenvalue == pytest.approx(short.unscaled.top_eigenvalue, rel=1e-3)


def test_vectors_that_do_not_fit_are_refused_with_what_helps(trained, tmp_path, monkeypatch):
    def too_many(*_, **__):
        raise ERRORS["on a GPU"]

    monkeypatch.setattr(eigen, "_extended", too_many)
    with pytest.raises(Shortage, match=r"Hessian of .*run: not enough memory on cpu .*2.50 GiB more .*or --top"):
        make(trained, tmp_path / "h.json")


def test_pyhessian_alone_may_lack_memory(trained, tmp_path, monkeypatch):
    def too_much(*_):
        raise ERRORS["on a GPU"]

    monkeypatch.setattr(pyhessian_estimates, "_raw", too_much)
    found = make(trained, tmp_path / "h.json", pyhessian=True)
    assert found.pyhessian is found.agreement is None and "not enough memory" in found.pyhessian_absent


class Idle(nn.Module):
    """Has a layer that the loss does not use."""

    def __init__(self):
        super().__init__()
        self.dropout = []
        self.spare = nn.Linear(3, 2, bias=False)
        self.conv = nn.Conv2d(1, 2, 3, 2)
        self.fc = nn.Linear(18, 3)

    def forward(self, x, masks=None):
        return self.fc(torch.tanh(self.conv(x)).flatten(1))


def test_a_parameter_that_the_loss_does_not_use(tmp_path, monkeypatch, capsys):
    """Our numbers are those of the Hessian with zeros in its place, PyHessian's column is null with the reason."""
    monkeypatch.setattr(models, "build", lambda *_: Idle())
    write_problem(tmp_path)
    spec = description("fedavg", rounds=1)
    train(RunConfig(**spec), tmp_path / "data", tmp_path / "partition.npz", tmp_path / "run", device="cpu")
    settings = {"precision": "float64", "images": None, "residual": 1e-6, "vectors": 64}
    found = make(tmp_path, tmp_path / "h.json", pyhessian=True, **settings)
    assert found.about.parameters == 83 and found.pyhessian is found.agreement is None
    assert found.pyhessian_absent == (
        "it takes every parameter to be part of the loss and of its gradient, and 'spare.weight' is not"
    )
    said = f"PyHessian has no top eigenvalue and no trace: {found.pyhessian_absent}"
    assert said in found.warnings and said in capsys.readouterr().err
    assert said in found.warnings_about("hessian_trace") and said in found.warnings_about("hessian_top_eigenvalue")
    assert said not in found.warnings_about("hessian_scaled_trace")
    truth = exact(tmp_path, "run", np.load(tmp_path / "partition.npz")["indices"])
    np.testing.assert_allclose(found.unscaled.eigenvalues, truth[:1], rtol=1e-6)
    assert abs(found.unscaled.trace - float(truth.sum())) <= 4 * found.unscaled.trace_standard_error


def test_a_parameter_that_the_loss_is_only_linear_in():
    class Linear(nn.Module):
        def __init__(self):
            super().__init__()
            self.bent, self.straight = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))

        def forward(self, x):
            return x * (self.bent**3).sum() + x * self.straight.sum()

    batches = [(torch.ones(4).double(), torch.ones(4).double())]
    found = HessianProducts(seeded(Linear()), lambda output, target: output.mean(), batches, 2)
    with pytest.raises(pyhessian_estimates.Unfit, match="'straight' is not"):
        pyhessian_estimates.estimate(found, 0, 7, tolerance=0.01, error=0.05, most=8)
    known = eigen.top(found, draw_of_signs(found, "eigenvalues"), 2, tolerance=1e-6, most=60)
    whole = torch.cat([6 * found.parameters[0].detach(), torch.zeros(3).double()])
    torch.testing.assert_close(known.values, whole.sort(descending=True).values[:2])
    trace = estimates.trace(found, draw_of_signs(found, "trace"), known, error=1e-3, most=64)
    assert trace.value == pytest.approx(float(whole.sum()), abs=1e-9), "a diagonal has no error"
    assert vector_products.remedies(torch.device("cuda")).count("--device cpu") == 1
