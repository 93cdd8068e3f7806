"""Estimates of a Hessian without enough memory, and with parameters that PyHessian does not support."""

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
from flatfed.errors import Shortage
from flatfed.runs.curvature import AtOnce
from harness import ERRORS, draw_of_signs, job, seeded


def short(most: int):
    """Return a loss whose memory ends with more than ``most`` images."""

    def loss(outputs, targets):
        if len(targets) > most:
            raise ERRORS["on a GPU"]
        return cross_entropy(outputs, targets)

    return loss


def test_too_little_memory_is_refused_and_fewer_images_at_a_time_help(finished, tmp_path, monkeypatch):
    """The remedy that the message names gives the numbers of another block up to rounding."""
    out = tmp_path / "out" / "h.json"
    with monkeypatch.context() as patch:
        patch.setattr(hessians, "cross_entropy", short(3))
        with pytest.raises(Shortage, match=r"Hessian of .*run: not enough memory on cpu .*a smaller --micro-batch"):
            make(finished, out)
        assert not out.exists()
        few = make(finished, out, micro_batch=3)
    plain = make(finished, tmp_path / "plain.json")
    assert (plain.at_once, few.at_once) == (AtOnce(images=128, vectors=4), AtOnce(images=3, vectors=4))
    assert plain.unscaled.top_eigenvalue == pytest.approx(few.unscaled.top_eigenvalue, rel=1e-3)


def test_vectors_that_do_not_fit_are_refused_and_pyhessian_is_left_out(finished, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise ERRORS["on a GPU"]

    monkeypatch.setattr(pyhessian_estimates, "_raw", fails)
    found = make(finished, tmp_path / "h.json", pyhessian=True)
    assert found.pyhessian is found.agreement is None and "not enough memory" in found.pyhessian_absent
    monkeypatch.setattr(eigen, "_extended", fails)
    with pytest.raises(Shortage, match=r"Hessian of .*run: not enough memory on cpu .*2.50 GiB more .*or --top"):
        make(finished, tmp_path / "other.json")
    assert vector_products.remedies(torch.device("cuda")).count("--device cpu") == 1


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
    job(tmp_path, "fedavg", "run", rounds=1, precision="float64")
    settings = {"precision": "float64", "images": None, "residual": 1e-6, "vectors": 64}
    found = make(tmp_path, tmp_path / "h.json", pyhessian=True, **settings)
    assert found.about.parameters == 83 and found.pyhessian is found.agreement is None
    assert "'spare.weight' is not" in found.pyhessian_absent
    warning = f"PyHessian has no top eigenvalue and no trace: {found.pyhessian_absent}"
    assert warning in found.warnings and warning in capsys.readouterr().err
    for metric, expected in (("trace", True), ("top_eigenvalue", True), ("scaled_trace", False)):
        assert (warning in found.warnings_about(f"hessian_{metric}")) == expected
    truth = exact(tmp_path, np.load(tmp_path / "partition.npz")["indices"])
    np.testing.assert_allclose(found.unscaled.eigenvalues, truth[:1], rtol=1e-6)
    assert abs(found.unscaled.trace - float(truth.sum())) <= 4 * found.unscaled.trace_standard_error


class Linear(nn.Module):
    """Is linear in a parameter."""

    def __init__(self):
        super().__init__()
        self.bent, self.straight = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x * (self.bent**3).sum() + x * self.straight.sum()


def test_a_parameter_that_the_loss_is_only_linear_in():
    batches = [(torch.ones(4).double(), torch.ones(4).double())]
    found = HessianProducts(seeded(Linear()), lambda output, target: output.mean(), batches, 2)
    with pytest.raises(pyhessian_estimates.Unfit, match="'straight' is not"):
        pyhessian_estimates.estimate(found, 0, 7, tolerance=0.01, error=0.05, most=8)
    known = eigen.top(found, draw_of_signs(found, "eigenvalues"), 2, tolerance=1e-6, most=60)
    whole = torch.cat([6 * found.parameters[0].detach(), torch.zeros(3).double()])
    torch.testing.assert_close(known.values, whole.sort(descending=True).values[:2])
    trace = estimates.trace(found, draw_of_signs(found, "trace"), known, error=1e-3, most=64)
    assert trace.value == pytest.approx(float(whole.sum()), abs=1e-9), "a diagonal has no error"
