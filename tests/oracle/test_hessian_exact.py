"""Estimates of a Hessian against Hessians that are known: a closed form, a prescribed spectrum, torch.func."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from flatfed.analysis.hessian import estimates, pyhessian_estimates
from flatfed.analysis.hessian.vector_products import HessianProducts
from harness import draw_of_signs, seeded, split_images

SIZE = 100
SPECTRUM = torch.cat([torch.tensor([50.0, 40, 30, 30, 20, -15]), torch.linspace(-1, 3, SIZE - 6)]).double()
ROTATION = torch.linalg.qr(torch.randn(SIZE, SIZE, dtype=torch.double, generator=torch.Generator().manual_seed(0)))[0]
MATRIX = ROTATION @ SPECTRUM.diag() @ ROTATION.T
ONES = torch.ones(5, dtype=torch.double)
BATCHES = split_images((1, 6, 6), 5)


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

    # Not torch.func.hessian: its forward mode takes seconds to import.
    return torch.func.jacrev(torch.func.grad(loss))(torch.cat([value.detach().reshape(-1) for value in values]))


def cnn() -> nn.Module:
    layers = nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten()
    return seeded(nn.Sequential(*layers, nn.Linear(36, 5)))


class Exact:
    """Products with a known matrix, without autograd."""

    def __init__(self, matrix: torch.Tensor, block: int = 4):
        self.matrix, self.block, self.size, self.done, self.parameters = matrix, block, len(matrix), 0, [matrix]

    def __call__(self, vectors: torch.Tensor) -> torch.Tensor:
        self.done += len(vectors)
        return vectors @ self.matrix


def largest(products: HessianProducts, count: int, tolerance: float = 0.01, most: int = 600, seed: int = 0):
    """Return the top eigenpairs as a run's analysis finds them."""
    start = draw_of_signs(products, "eigenvalues", seed)(0)
    return estimates.top(products, start, count, tolerance=tolerance, most=most)


def traced(products: HessianProducts, error: float = 1e-9, most: int = 64, seed: int = 0):
    return estimates.trace(products, draw_of_signs(products, "trace", seed), error=error, most=most)


@pytest.fixture(scope="module")
def whole() -> torch.Tensor:
    return exact(HessianProducts(cnn(), cross_entropy, BATCHES, 1))


@pytest.mark.parametrize("block", [3, 50])
def test_products_of_a_small_cnn_against_its_whole_hessian(block, whole):
    """Also of the weights' scaled Hessian, diag(|w|) H diag(|w|)."""
    model = cnn()
    products = HessianProducts(model, cross_entropy, BATCHES, block)
    row = torch.cat([p.detach().reshape(-1) for p in model.parameters()]).abs()
    vectors = torch.randn(10, 233, dtype=torch.double, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(products(vectors), vectors @ whole, rtol=1e-9, atol=1e-12)
    scaled = HessianProducts(model, cross_entropy, BATCHES, block, scale=row)
    torch.testing.assert_close(scaled(vectors), vectors @ (row[:, None] * whole * row), rtol=1e-9, atol=1e-12)
    assert products.done == scaled.done == 10


def assert_top(matrix: torch.Tensor, count: int, seed: int = 0) -> None:
    """Assert that the ``count`` largest eigenvalues are found, with orthonormal eigenvectors and their residuals."""
    found, scale = largest(Exact(matrix), count, 1e-9, 2000, seed), float(matrix.norm())
    torch.testing.assert_close(
        found.values, torch.linalg.eigvalsh(matrix).flip(0)[:count], rtol=1e-9, atol=1e-9 * scale
    )
    rows = found.vectors
    torch.testing.assert_close(rows @ rows.T, torch.eye(count).double(), rtol=0, atol=1e-10)
    measured = (rows @ matrix - found.values[:, None] * rows).norm(dim=1)
    torch.testing.assert_close(found.residuals, measured, rtol=1e-6, atol=1e-12 * scale)
    assert found.converged


def with_copies(copies: int) -> torch.Tensor:
    spectrum = torch.cat([torch.full((copies,), 3.0), torch.linspace(1, -1, SIZE - copies)]).double()
    return ROTATION @ spectrum.diag() @ ROTATION.T


MATRICES = {
    **{"three": (MATRIX, 3), "half": (MATRIX, SIZE // 2), "all but one": (MATRIX, SIZE - 1)},
    "identity": (3 * torch.eye(SIZE).double(), 5),
    "zero": (torch.zeros(SIZE, SIZE).double(), 3),
    "rank one": (torch.ones(SIZE, SIZE).double(), 5),
    **{f"{copies} copies": (with_copies(copies), 5) for copies in (2, 3)},
}


@pytest.mark.parametrize("kind", MATRICES)
def test_eigenvalues_of_known_matrices(kind):
    assert_top(*MATRICES[kind])


@pytest.mark.parametrize("size", [3, 4, 5, 8, 15])
def test_models_of_few_parameters(size):
    generator = torch.Generator().manual_seed(size)
    for seed in range(20):
        matrix = torch.randn(size, size, dtype=torch.double, generator=generator)
        assert_top(matrix + matrix.T, min(size - 1, 4), seed)


@pytest.mark.parametrize("copies", [1, 2, 3, 6])
def test_the_largest_eigenvalue_at_a_loose_tolerance(copies):
    """Tables show it alone: copies of a multiple eigenvalue may be missing among the others."""
    for seed in range(10):
        found = largest(Exact(with_copies(copies)), 5, seed=seed)
        assert found.converged and float(found.values[0]) == pytest.approx(3.0, rel=1e-3)
        assert (found.values <= 3.0 + 1e-9).all()


def test_products_that_leave_a_small_subspace_repeat_bit_for_bit():
    """ARPACK then draws a vector."""
    matrix = torch.diag(torch.tensor([3.0, 2.0] + [0.0] * (SIZE - 2))).double()
    first, again = (largest(Exact(matrix), 4).vectors for _ in range(2))
    assert torch.equal(first, again)


def test_the_stopping_rule_of_eigenvalues():
    products = [Exact(MATRIX) for _ in range(3)]
    loose, strict, again = (
        largest(one, 8, tolerance) for one, tolerance in zip(products, (0.01, 1e-9, 1e-9), strict=True)
    )
    for found, tolerance in ((loose, 0.01), (strict, 1e-9)):
        assert found.converged and (found.residuals <= tolerance * found.values).all()
    assert products[0].done < products[1].done
    assert torch.equal(strict.vectors, again.vectors), "the start vector decides"


@pytest.mark.parametrize(("most", "values"), [(1, 5), (12, 5), (30, 5), (60, 5), (90, 2)])
def test_without_convergence_there_are_rough_values_or_those_that_converged(most, values):
    """``most`` includes the products of the residuals; twelve are the fewest of five eigenvalues."""
    products = Exact(torch.cat([SPECTRUM[:2], torch.linspace(1, 2, SIZE - 2).double()]).diag())
    found = largest(products, 5, 1e-8, most)
    assert not found.converged and products.done <= max(most, 12)
    assert len(found.values) == values and found.vectors.shape == (values, SIZE)
    exact_values = torch.tensor([50.0, 40.0]).double()
    allowed = found.residuals[:2] + 1e-12
    assert ((found.values[:2] - exact_values).abs() <= allowed).all() or most < 30


@pytest.mark.parametrize(("sign", "most"), [(1, 256), (-1, 64)])
def test_pyhessian_on_a_prescribed_spectrum(sign, most):
    """Its top eigenvalue is the largest in size; a negative trace does not end the estimate at once."""
    products = quadratic(sign * MATRIX)
    state, default = torch.get_rng_state(), torch.get_default_dtype()
    found = pyhessian_estimates.estimate(products, 0, 7, tolerance=0.01, error=0.05, most=most)
    assert found.top_eigenvalue == pytest.approx(sign * 50, rel=1e-3)
    assert found.eigenvalue_converged and found.residual < 0.5
    assert abs(found.trace - sign * float(SPECTRUM.sum())) < 3 * found.trace_standard_error
    assert sign == 1 or found.trace_vectors == most
    assert torch.equal(torch.get_rng_state(), state) and torch.get_default_dtype() == default
    assert all(parameter.grad is None for parameter in products.parameters)


def test_the_trace_over_seeds_and_its_own_error():
    products, truth = Exact(MATRIX, block=32), float(SPECTRUM.sum())
    found = [traced(products, 0.08, 128, seed) for seed in range(200)]
    values = np.array([one.value for one in found])
    within = [abs(one.value - truth) <= 2 * one.standard_error for one in found]
    assert abs(values.mean() - truth) <= 3 * values.std(ddof=1) / math.sqrt(200)
    assert 0.90 <= np.mean(within) <= 0.99
    for one in found:
        assert one.converged == (one.samples >= 32 and one.standard_error <= 0.08 * abs(one.value))
        assert one.converged or one.samples == 128


def test_vectors_are_keyed_by_number_not_by_block():
    one, other = (traced(quadratic(block=block), most=20) for block in (1, 8))
    assert one.value == pytest.approx(other.value, rel=1e-12) and one.samples == other.samples == 20
