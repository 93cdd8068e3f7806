"""Estimates of a Hessian without enough memory, and with parameters that PyHessian does not support."""

import pytest
import torch
from test_measure import make
from torch import nn
from torch.nn.functional import cross_entropy

from flatfed.analysis.hessian import eigen, estimates, pyhessian_estimates, vector_products
from flatfed.analysis.hessian import measure as hessians
from flatfed.analysis.hessian.vector_products import HessianProducts
from flatfed.errors import Shortage
from flatfed.runs.curvature import AtOnce
from harness import ERRORS, draw_of_signs, seeded


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


def test_vectors_that_do_not_fit_are_refused_and_pyhessian_is_left_out(finished, tmp_path, monkeypatch, capsys):
    def fails(*_, **__):
        raise ERRORS["on a GPU"]

    monkeypatch.setattr(pyhessian_estimates, "_raw", fails)
    found = make(finished, tmp_path / "h.json", pyhessian=True)
    assert found.pyhessian is found.agreement is None and "not enough memory" in found.pyhessian_absent
    warning = f"PyHessian has no top eigenvalue and no trace: {found.pyhessian_absent}"
    assert warning in found.warnings and warning in capsys.readouterr().err
    for metric, expected in (("trace", True), ("top_eigenvalue", True), ("scaled_trace", False)):
        assert (warning in found.warnings_about(f"hessian_{metric}")) == expected
    monkeypatch.setattr(eigen, "_extended", fails)
    with pytest.raises(Shortage, match=r"Hessian of .*run: not enough memory on cpu .*2.50 GiB more .*or --top"):
        make(finished, tmp_path / "other.json")
    assert vector_products.remedies(torch.device("cuda")).count("--device cpu") == 1


class Linear(nn.Module):
    """Is linear in a parameter, and does not use another."""

    def __init__(self):
        super().__init__()
        self.bent, self.straight, self.spare = (nn.Parameter(torch.ones(3)) for _ in range(3))

    def forward(self, x):
        return x * (self.bent**3).sum() + x * self.straight.sum()


def test_parameters_that_the_loss_is_linear_in_or_does_not_use():
    batches = [(torch.ones(4).double(), torch.ones(4).double())]
    found = HessianProducts(seeded(Linear()), lambda output, target: output.mean(), batches, 2)
    with pytest.raises(pyhessian_estimates.Unfit, match="'straight' is not"):
        pyhessian_estimates.estimate(found, 0, 7, tolerance=0.01, error=0.05, most=8)
    known = eigen.top(found, draw_of_signs(found, "eigenvalues"), 2, tolerance=1e-6, most=60)
    whole = torch.cat([6 * found.parameters[0].detach(), torch.zeros(6).double()])
    torch.testing.assert_close(known.values, whole.sort(descending=True).values[:2])
    trace = estimates.trace(found, draw_of_signs(found, "trace"), known, error=1e-3, most=64)
    assert trace.value == pytest.approx(float(whole.sum()), abs=1e-9), "a diagonal has no error"
