"""Estimates of a Hessian against Hessians that are known: a closed form, a prescribed spectrum, torch.func."""

from __future__ import annotations

import itertools
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
from flatfed.runs.curvature import agreement, half_width
from harness import draw_of_signs, seeded, split_images
from samples import sampled

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


def cnn() -> nn.Module:
    layers = nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten()
    return seeded(nn.Sequential(*layers, nn.Linear(36, 5)))


def known(products: HessianProducts, count: int, tolerance: float = 0.01, most: int = 600, seed: int = 0):
    """Return the top eigenpairs as a run's analysis finds them."""
    return eigen.top(products, draw_of_signs(products, "eigenvalues", seed), count, tolerance=tolerance, most=most)


def traced(products, found, error: float = 1e-9, most: int = 64, seed: int = 0):
    return estimates.trace(products, draw_of_signs(products, "trace", seed), found, error=error, most=most)


@pytest.mark.parametrize("block", [3, 500])
def test_a_small_cnn_against_its_whole_hessian(block):
    """Also of the weights' scaled Hessian, diag(|w|) H diag(|w|)."""
    model, batches = cnn(), split_images((1, 6, 6), 5)
    products = HessianProducts(model, cross_entropy, batches, block)
    expected, row = exact(products), torch.cat([p.detach().reshape(-1) for p in model.parameters()]).abs()
    assert products.size == 233
    torch.testing.assert_close(whole(products), expected, rtol=1e-9, atol=1e-12)
    scaled = HessianProducts(model, cross_entropy, batches, block, scale=row)
    torch.testing.assert_close(whole(scaled), row[:, None] * expected * row, rtol=1e-9, atol=1e-12)


def assert_top(matrix: torch.Tensor, count: int, sure: int, block: int = 4, seed: int = 0) -> None:
    """Assert that ``count`` eigenvectors are found, of which the first ``sure`` have the largest eigenvalues."""
    found = known(quadratic(matrix, block), count, 1e-6, 2000, seed)
    torch.testing.assert_close(
        found.values[:sure], torch.linalg.eigvalsh(matrix).flip(0)[:sure], rtol=1e-6, atol=1e-9 * float(matrix.norm())
    )
    rows = found.vectors
    torch.testing.assert_close(rows @ rows.T, torch.eye(count).double(), rtol=0, atol=1e-10)
    measured = (rows @ matrix - found.values[:, None] * rows).norm(dim=1)
    torch.testing.assert_close(found.residuals, measured, rtol=1e-6, atol=1e-10)
    assert found.converged


def with_copies(copies: int) -> torch.Tensor:
    spectrum = torch.cat([torch.full((copies,), 3.0), torch.linspace(1, -1, SIZE - copies)]).double()
    return ROTATION @ spectrum.diag() @ ROTATION.T


#: Matrix, number of eigenvalues, of those that are sure, block. A block of four finds four copies of an eigenvalue.
MATRICES = {
    **{"one vector": (MATRIX, 3, 3, 1), "prescribed": (MATRIX, SIZE, SIZE, 4)},
    "identity": (3 * torch.eye(SIZE).double(), SIZE, SIZE, 4),
    "zero": (torch.zeros(SIZE, SIZE).double(), SIZE, SIZE, 4),
    "rank one": (torch.ones(SIZE, SIZE).double(), SIZE, SIZE, 4),
    **{f"{copies} copies": (with_copies(copies), 5, sure, 4) for copies, sure in ((2, 5), (3, 5), (4, 4), (6, 4))},
}


@pytest.mark.parametrize("kind", MATRICES)
def test_eigenvalues_of_known_matrices(kind):
    assert_top(*MATRICES[kind])


@pytest.mark.parametrize("size", [3, 4, 5, 8, 15])
def test_models_of_few_parameters_have_no_eigenvalue_above_the_largest(size):
    """Random signs depend on each other there: of four of three parameters each, always."""
    generator = torch.Generator().manual_seed(size)
    for seed in range(20):
        matrix = torch.randn(size, size, dtype=torch.double, generator=generator)
        assert_top(matrix + matrix.T, min(size, 4), min(size, 4), seed=seed)


def test_the_stopping_rule_of_eigenvalues():
    products, done = quadratic(), []
    for tolerance in (0.01, 1e-6):
        found = known(products, 2, tolerance)
        assert found.converged and (found.residuals <= tolerance * found.values).all()
        done.append(products.done)
    assert done[1] > 2 * done[0]
    for most in (8, 1):
        stopped = known(products, 5, 1e-8, most)
        assert not stopped.converged and (stopped.residuals > 1e-8 * stopped.values).any()
        assert stopped.vectors.shape == (5, SIZE)


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


NONE = torch.zeros(0).double()
NONE_KNOWN = eigen.Eigenpairs(NONE, torch.zeros(0, SIZE).double(), NONE, torch.zeros(1, 0, 0).double(), True)


@pytest.mark.parametrize("deflated", sampled([False, True], [True]))
def test_the_trace_over_seeds_and_its_own_error(deflated):
    """Known eigenvectors leave less to chance."""
    products, truth = quadratic(block=32), float(SPECTRUM.sum())
    pairs = known(products, 3) if deflated else NONE_KNOWN
    found = [traced(products, pairs, 0.08, 128, seed) for seed in range(200)]
    values = np.array([one.value for one in found])
    within = [abs(one.value - truth) <= 2 * one.standard_error for one in found]
    assert abs(values.mean() - truth) <= 3 * values.std(ddof=1) / math.sqrt(200)
    assert 0.90 <= np.mean(within) <= 0.99
    for one in found:
        assert one.converged == (one.samples >= 32 and one.standard_error <= 0.08 * abs(one.value))
        assert one.converged or one.samples == 128
    if deflated:
        errors = [traced(quadratic(), some).standard_error for some in (known(products, 5), NONE_KNOWN)]
        assert errors[0] < errors[1] / 2


def test_vectors_are_keyed_by_number_not_by_block():
    one, other = (traced(quadratic(block=block), NONE_KNOWN, most=20) for block in (1, 8))
    assert one.value == pytest.approx(other.value, rel=1e-12) and one.samples == other.samples == 20


def test_agreement_is_measured_against_the_errors():
    made_up = made.hessian(10.0, 100.0, (10.02, 116.0))
    ours, theirs = made_up.unscaled, made_up.pyhessian
    found = agreement(ours, theirs)
    top, trace = found.top_eigenvalue, found.trace
    assert (top.difference, top.error, top.within) == (pytest.approx(0.02), pytest.approx(0.03), True)
    # Student's 0.99865 quantile is 3.0809 for 95 degrees of freedom, 4.53 for the 7 that eight vectors of ours leave.
    assert (trace.difference, trace.error, trace.within) == (16.0, pytest.approx(15.4045, abs=1e-3), False)
    exact = theirs.model_copy(update={"trace_standard_error": 0.0})
    few = agreement(ours.model_copy(update={"trace_vectors": 8}), exact).trace
    assert few.error == pytest.approx(3 * 4.5299, abs=1e-3)
    assert not agreement(ours, theirs.model_copy(update={"top_eigenvalue": 9.96})).top_eigenvalue.within


def test_an_interval_of_two_estimates_has_the_degrees_of_freedom_of_welch_and_satterthwaite():
    """Errors 3 and 4 of 2 and 8 degrees: (9 + 16)^2 / (81 / 2 + 256 / 8) is 8.6, rounded down 8, of quantile 2.3060."""
    assert half_width([(3.0, 2), (4.0, 8)]) == pytest.approx(5 * 2.3060, abs=5e-4)
    assert half_width([(1.0, 5), (1.0, 5)]) == pytest.approx(math.sqrt(2) * 2.2281, abs=1e-4), "ten, exactly"
    assert half_width([(2.0, 9)]) == half_width([(2.0, 9), (0.0, 0)]) == pytest.approx(2 * 2.2622, abs=1e-4)
    assert half_width([(0.0, 7), (0.0, 3)]) == 0
    assert half_width([(math.inf, 0), (1.0, 3)]) == math.inf


def test_products_and_forms_of_parts():
    batches = split_images((1, 6, 6), 5, 24)  # of four images each
    parts = [batches[start : start + 2] for start in (0, 2, 4)]
    products = HessianProducts(cnn(), cross_entropy, batches, 3, parts=parts)
    vectors = torch.randn(5, products.size, dtype=torch.double, generator=torch.Generator().manual_seed(3))
    forms = [vectors @ exact(HessianProducts(cnn(), cross_entropy, part, 3)) @ vectors.T for part in parts]
    expected = vectors @ exact(products), torch.stack(forms)
    torch.testing.assert_close(products.with_forms(vectors), expected, rtol=1e-9, atol=1e-12)
    assert products.done == 5


EVERY, DRAWN, PARTS = 96, 40, 8  # images there are, images of an analysis, parts of these
REPEATS = 200


class Known:
    """What products are to estimates, of Hessians (images, n, n) that are known, their images in ``parts``."""

    def __init__(self, hessians: torch.Tensor, parts: int, block: int = 4):
        self.forms = [part.mean(dim=0) for part in hessians.tensor_split(parts)]
        self.whole, self.block, self.size, self.done = hessians.mean(dim=0), block, hessians.shape[1], 0
        self.parameters = [hessians]

    def __call__(self, vectors):
        self.done += len(vectors)
        return vectors @ self.whole

    def with_forms(self, vectors):
        return self(vectors), torch.stack([vectors @ form @ vectors.T for form in self.forms])


def chosen(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).choice(EVERY, DRAWN, replace=False)


def test_the_error_of_the_choice_of_images_is_what_numbers_vary_by():
    """Images drawn and split at random; their traces, without random vectors, and top eigenvalues."""
    draws = torch.randn(EVERY, 12, 12, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    single = (draws + draws.mT) / 10 + (draws[:, 0] + torch.tensor([9.0, *[1.0] * 11])).diag_embed()
    traces, found = single.diagonal(dim1=1, dim2=2).sum(dim=1).numpy(), []
    for seed in range(REPEATS):
        products = Known(single[chosen(seed)], PARTS)
        pairs = known(products, 2, 1e-3, seed=seed)
        found.append(estimates.summarise(pairs, traced(products, pairs, most=32, seed=seed), DRAWN / EVERY))
    varied = {
        "trace": [traces[chosen(seed)].mean() for seed in range(REPEATS)],
        "top_eigenvalue": [one.top_eigenvalue for one in found],
    }
    for name, values in varied.items():
        stated = math.sqrt(np.mean([getattr(one, f"{name}_images_error") ** 2 for one in found]))
        assert stated == pytest.approx(np.std(values, ddof=1), rel=0.15)


def test_errors_of_parts_by_hand():
    """Parts 1, 3, 5, 7: deviation sqrt(20 / 3), of their mean half of that; of all but a quarter drawn, sqrt(3/4)."""
    parts = [1.0, 3.0, 5.0, 7.0]
    assert estimates.error_of_mean(parts, 0.25) == pytest.approx(math.sqrt(20 / 3) / 2 * math.sqrt(0.75))
    forms = np.array(parts)[:, None, None] * np.diag([1.0, 0.5])
    assert estimates.error_of_largest(forms, 0.25) == pytest.approx(estimates.error_of_mean(parts, 0.25))
    assert estimates.error_of_mean(parts, 1.0) == estimates.error_of_largest(forms, 1.0) == 0
    # Without one part the largest is 10/3, 10/3, 2 and 7/3, the last of the other vector.
    forms = np.stack([np.diag(pair) for pair in [(0.0, 3.0), (0.0, 3.0), (4.0, 1.0), (6.0, 0.0)]])
    without = np.array([10 / 3, 10 / 3, 2, 7 / 3])
    assert estimates.error_of_largest(forms, 0.0) == pytest.approx(
        math.sqrt(3 / 4 * ((without - without.mean()) ** 2).sum())
    )


def test_a_block_that_nearly_depends_on_itself_stays_orthonormal():
    """Rows that differ by little more than rounding: what is left of the second is orthogonal to all the same."""
    basis = torch.linalg.qr(torch.randn(30, 5, dtype=torch.double, generator=torch.Generator().manual_seed(0)))[0].T
    rows = torch.ones(2, 30).double()
    rows[1, 0] += 1e-11
    rows -= (rows @ basis.T) @ basis
    spares = (torch.arange(30).double() ** power for power in itertools.count(1))
    found = torch.cat([basis, eigen._orthonormal(rows, basis, 2, 1.0, spares)])
    torch.testing.assert_close(found @ found.T, torch.eye(7).double(), rtol=0, atol=1e-12)
