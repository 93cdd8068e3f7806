"""Estimates of a Hessian against Hessians that are known: closed forms, a prescribed spectrum, one taken whole."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

import made
from flatfed.analysis.hessian import eigen, estimates, pyhessian_estimates
from flatfed.analysis.hessian.vector_products import HessianProducts
from flatfed.errors import FlatFedError
from flatfed.runs.curvature import agreement, half_width
from harness import draw_of_signs, seeded, split_images

SIZE = 100
SPECTRUM = torch.cat([torch.tensor([50.0, 40, 30, 30, 20, -15]), torch.linspace(-1, 3, SIZE - 6)]).double()
ROTATION = torch.linalg.qr(torch.randn(SIZE, SIZE, dtype=torch.double, generator=torch.Generator().manual_seed(0)))[0]
MATRIX = ROTATION @ SPECTRUM.diag() @ ROTATION.T
ONES = torch.ones(5, dtype=torch.double)


class Quadratic(nn.Module):
    """x w' A w / 2, in two tensors: with the mean of the outputs as loss, and inputs of mean 1, its Hessian is A."""

    def __init__(self, matrix: torch.Tensor):
        super().__init__()
        self.matrix = matrix
        self.first = nn.Parameter(torch.linspace(-1, 1, 2, dtype=matrix.dtype))
        self.rest = nn.Parameter(torch.linspace(-2, 2, len(matrix) - 2, dtype=matrix.dtype).view(1, -1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = torch.cat([self.first, self.rest[0]])
        return 0.5 * (w @ self.matrix @ w) * x


def quadratic(matrix: torch.Tensor = MATRIX, block: int = 4) -> HessianProducts:
    """Products whose micro-batches, of unequal size, have unequal Hessians: a careless mean would show."""
    x = torch.tensor([4.0, 0.25, 0.25, 0.25, 0.25], dtype=matrix.dtype)
    batches = [(x[:1], ONES[:1]), (x[1:], ONES[1:])]
    return HessianProducts(Quadratic(matrix), lambda output, target: output.mean(), batches, block)


def exact(products: HessianProducts) -> torch.Tensor:
    """The whole Hessian, by torch.func on the mean over all images: another way than products go."""
    names, values = zip(*products.model.named_parameters(), strict=True)
    inputs, targets = (torch.cat(part) for part in zip(*products.batches, strict=True))
    sizes = [value.numel() for value in values]

    def loss(row):
        parts = {n: p.view_as(v) for n, p, v in zip(names, row.split(sizes), values, strict=True)}
        return products.loss(functional_call(products.model, parts, (inputs,)), targets)

    return torch.func.hessian(loss)(torch.cat([value.detach().reshape(-1) for value in values]))


def whole(products: HessianProducts) -> torch.Tensor:
    return products(torch.eye(products.size, dtype=products.parameters[0].dtype))


def test_logistic_regression_in_closed_form():
    batches = split_images((6,), 3)
    products = HessianProducts(seeded(nn.Linear(6, 3)), cross_entropy, batches, 4)
    x = torch.cat([part for part, _ in batches])
    p = torch.softmax(products.model(x), dim=1).detach()
    curved = p.diag_embed() - p[:, :, None] * p[:, None, :]  # of the loss in the logits, (images, classes, classes)
    z = torch.cat([x, torch.ones(len(x), 1, dtype=torch.double)], dim=1)
    weights = torch.einsum("nab,ni,nj->aibj", curved, z, z) / len(x)
    order = [a * 7 + i for a in range(3) for i in range(6)] + [a * 7 + 6 for a in range(3)]  # torch: weights, biases
    torch.testing.assert_close(whole(products), weights.reshape(21, 21)[order][:, order], rtol=1e-12, atol=1e-14)


def test_linear_network_in_closed_form():
    """f(x) = b a'x with loss (f - y)^2 / 2: H_aa = b^2 S, H_bb = a'S a, H_ab = 2 b S a - s; S = E x x', s = E y x."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return self.b * (x @ self.a)

    batches = [(x, y.double()) for x, y in split_images((4,), 5)]
    products = HessianProducts(seeded(Network()), lambda f, y: ((f - y) ** 2).mean() / 2, batches, 2)
    x, y = (torch.cat(part) for part in zip(*batches, strict=True))
    a, b = (parameter.detach() for parameter in products.parameters)
    second, first = x.T @ x / len(x), x.T @ y / len(x)
    across = (2 * b * second @ a - first)[:, None]
    expected = torch.cat([torch.cat([b**2 * second, across], 1), torch.cat([across.T, (a @ second @ a).view(1, 1)], 1)])
    torch.testing.assert_close(whole(products), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("block", [1, 3, 500])
def test_a_small_cnn_against_its_whole_hessian(block):
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 4)
    )
    products = HessianProducts(seeded(model), cross_entropy, split_images((1, 6, 6), 4), block)
    expected = exact(products)
    assert products.size == 196
    torch.testing.assert_close(whole(products), expected, rtol=1e-9, atol=1e-12)
    found = eigen.top(products, draw_of_signs(products, "eigenvalues"), 5, tolerance=1e-5, most=2000)
    values = torch.linalg.eigvalsh(expected).flip(0)
    assert found.converged
    torch.testing.assert_close(found.values, values[:5], rtol=1e-6, atol=0)


@pytest.mark.parametrize(("block", "count"), [(1, 3), (4, 5)])  # a block meets an eigenvalue that is there twice
def test_eigenvalues_of_a_prescribed_spectrum(block, count):
    products = quadratic(block=block)
    found = eigen.top(products, draw_of_signs(products, "eigenvalues"), count, tolerance=1e-5, most=2000)
    assert found.converged and (found.residuals <= 1e-5 * found.values).all()
    torch.testing.assert_close(found.values, torch.tensor([50.0, 40, 30, 30, 20]).double()[:count], rtol=1e-6, atol=0)
    rows = found.vectors
    torch.testing.assert_close(rows @ rows.T, torch.eye(count).double(), rtol=0, atol=1e-10)
    measured = (rows @ MATRIX - found.values[:, None] * rows).norm(dim=1)
    torch.testing.assert_close(found.residuals, measured, rtol=1e-6, atol=1e-12)


def test_the_stopping_rule_of_eigenvalues():
    products = quadratic()
    loose = eigen.top(products, draw_of_signs(products, "eigenvalues"), 2, tolerance=0.01, most=600)
    few = products.done
    assert loose.converged and (loose.residuals <= 0.01 * loose.values).all()
    products = quadratic()
    eigen.top(products, draw_of_signs(products, "eigenvalues"), 2, tolerance=1e-6, most=600)
    assert products.done > few
    products = quadratic()
    cut = eigen.top(products, draw_of_signs(products, "eigenvalues"), 5, tolerance=1e-8, most=8)
    assert not cut.converged and (cut.residuals > 1e-8 * cut.values).any()
    at_once = eigen.top(quadratic(), draw_of_signs(products, "eigenvalues"), 5, tolerance=1e-8, most=1)
    assert not at_once.converged and at_once.vectors.shape == (5, SIZE)


@pytest.mark.parametrize("count", [6, SIZE])
@pytest.mark.parametrize("kind", ["identity", "zero", "rank one", "prescribed"])
def test_all_eigenvalues_whatever_their_multiplicity(kind, count):
    matrix = {
        "identity": 3 * torch.eye(SIZE).double(),
        "zero": torch.zeros(SIZE, SIZE).double(),
        "rank one": torch.ones(SIZE, SIZE).double(),
        "prescribed": MATRIX,
    }[kind]
    products = quadratic(matrix)
    found = eigen.top(products, draw_of_signs(products, "eigenvalues"), count, tolerance=1e-6, most=2000)
    expected = torch.linalg.eigvalsh(matrix).flip(0)[:count]
    torch.testing.assert_close(found.values, expected, rtol=1e-6, atol=1e-10)
    assert found.converged


def test_pyhessian_on_a_prescribed_spectrum():
    products = quadratic()
    state, default = torch.get_rng_state(), torch.get_default_dtype()
    found = pyhessian_estimates.estimate(products, 0, 7, tolerance=0.01, error=0.05, most=256)
    assert found.top_eigenvalue == pytest.approx(50, rel=1e-3)
    assert found.eigenvalue_converged and found.residual < 0.5
    assert abs(found.trace - float(SPECTRUM.sum())) < 3 * found.trace_standard_error
    assert torch.equal(torch.get_rng_state(), state) and torch.get_default_dtype() == default
    assert all(parameter.grad is None for parameter in products.parameters)
    again = pyhessian_estimates.estimate(products, 0, 7, tolerance=0.01, error=0.05, most=256)
    assert again == found
    assert pyhessian_estimates.estimate(products, 1, 7, tolerance=0.01, error=0.05, most=256) != found


def test_pyhessians_trace_does_not_end_at_once_where_it_is_negative():
    found = pyhessian_estimates.estimate(quadratic(-MATRIX), 0, 7, tolerance=0.01, error=0.05, most=64)
    assert found.trace_vectors == 64 and found.trace < 0
    assert found.top_eigenvalue == pytest.approx(-50, rel=1e-3)  # the largest in size


def none_known() -> eigen.Eigenpairs:
    nothing = torch.zeros(0).double()
    forms = torch.zeros(1, 0, 0).double()
    return eigen.Eigenpairs(nothing, torch.zeros(0, SIZE).double(), nothing, forms, True)


@pytest.mark.parametrize("deflated", [False, True])
def test_the_trace_over_seeds_and_its_own_error(deflated):
    products, truth = quadratic(block=32), float(SPECTRUM.sum())
    known = none_known()
    if deflated:
        known = eigen.top(products, draw_of_signs(products, "eigenvalues"), 3, tolerance=0.01, most=600)
    found = []
    for seed in range(200):
        drawn = draw_of_signs(products, "trace", seed)
        found.append(estimates.trace(products, drawn, known, error=0.08, most=128))
    values = np.array([one.value for one in found])
    within = [abs(one.value - truth) <= 2 * one.standard_error for one in found]
    assert abs(values.mean() - truth) <= 3 * values.std(ddof=1) / math.sqrt(200)
    assert 0.90 <= np.mean(within) <= 0.99
    for one in found:
        assert one.converged == (one.samples >= 32 and one.standard_error <= 0.08 * abs(one.value))
        assert one.converged or one.samples == 128


def test_known_eigenvectors_leave_less_to_chance():
    products = quadratic()
    known = eigen.top(products, draw_of_signs(products, "eigenvalues"), 5, tolerance=0.01, most=600)
    errors = [
        estimates.trace(products, draw_of_signs(products, "trace"), what, error=1e-9, most=64).standard_error
        for what in (known, none_known())
    ]
    assert errors[0] < errors[1] / 2


def test_vectors_are_keyed_by_number_not_by_block():
    products = quadratic()
    three = [draw_of_signs(products, "trace")(number) for number in range(3)]
    assert set(three[0].tolist()) == {-1.0, 1.0}
    assert not torch.equal(three[0], three[1]) and torch.equal(draw_of_signs(products, "trace")(2), three[2])
    assert not torch.equal(draw_of_signs(products, "eigenvalues")(0), three[0])
    found = [
        estimates.trace(quadratic(block=block), draw_of_signs(products, "trace"), none_known(), error=1e-9, most=20)
        for block in (1, 8)
    ]
    assert found[0].value == pytest.approx(found[1].value, rel=1e-12) and found[0].samples == found[1].samples == 20


def test_what_is_not_finite_is_refused():
    with pytest.raises(FlatFedError, match="a Hessian-vector product is not finite"):
        whole(quadratic(MATRIX * 1e308 * 1e3))


def test_agreement_is_measured_against_the_errors():
    made_up = made.hessian(10.0, 100.0, (10.02, 116.0))
    ours, theirs = made_up.unscaled, made_up.pyhessian
    found = agreement(ours, theirs)
    assert (found.top_eigenvalue.difference, found.top_eigenvalue.error) == (pytest.approx(0.02), pytest.approx(0.03))
    assert found.top_eigenvalue.within
    # Student's 0.99865 quantile is 3.0809 for 95 degrees of freedom, 4.53 for the 7 that eight vectors of ours leave.
    assert (found.trace.difference, found.trace.error) == (16.0, pytest.approx(15.4045, abs=1e-3))
    assert not found.trace.within
    exact = theirs.model_copy(update={"trace_standard_error": 0.0})
    few = agreement(ours.model_copy(update={"trace_vectors": 8}), exact).trace
    assert few.error == pytest.approx(3 * 4.5299, abs=1e-3)
    assert not agreement(ours, theirs.model_copy(update={"top_eigenvalue": 9.96})).top_eigenvalue.within


def test_an_interval_of_two_estimates_has_the_degrees_of_freedom_of_welch_and_satterthwaite():
    """Errors 3 and 4 of 2 and 8 degrees: (9 + 16)^2 / (81 / 2 + 256 / 8) is 8.6, rounded down 8, of quantile 2.3060."""
    assert half_width([(3.0, 2), (4.0, 8)]) == pytest.approx(5 * 2.3060, abs=5e-4)
    assert half_width([(1.0, 5), (1.0, 5)]) == pytest.approx(math.sqrt(2) * 2.2281, abs=1e-4), "ten, exactly"
    assert half_width([(2.0, 9)]) == half_width([(2.0, 9), (0.0, 0)])
    assert half_width([(2.0, 9)]) == pytest.approx(2 * 2.2622, abs=1e-4)
    assert half_width([(0.0, 7), (0.0, 3)]) == 0
    assert half_width([(math.inf, 0), (1.0, 3)]) == math.inf
