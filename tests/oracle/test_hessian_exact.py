"""Estimates and errors of a Hessian against Hessians of single images, taken whole by torch.func."""

from __future__ import annotations

import copy
import itertools
import math

import numpy as np
import pytest
import torch
from test_hessian import MATRIX, SIZE, exact, quadratic
from torch import nn
from torch.func import functional_call, vmap
from torch.nn.functional import cross_entropy

from flatfed.analysis.hessian import eigen as hessian_eigen
from flatfed.analysis.hessian import estimates, summary
from flatfed.analysis.hessian.vector_products import HessianProducts
from flatfed.runs.curvature import Estimates
from harness import draw_of_signs, seeded, split_images

EVERY, DRAWN, PARTS = 96, 40, 8  # images there are, images of an analysis, parts of these
REPEATS = 200


def cnn() -> nn.Module:
    layers = nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten()
    return seeded(nn.Sequential(*layers, nn.Linear(36, 5)))


@pytest.fixture(scope="module")
def single() -> torch.Tensor:
    """Hessians (EVERY, 233, 233) of the loss of each image, in the order of the flat row."""
    model = cnn()
    x, y = (torch.cat(part) for part in zip(*split_images((1, 6, 6), 5, EVERY), strict=True))
    names, values = zip(*model.named_parameters(), strict=True)
    sizes = [value.numel() for value in values]

    def loss(row, image, label):
        parts = {n: p.view_as(v) for n, p, v in zip(names, row.split(sizes), values, strict=True)}
        return cross_entropy(functional_call(model, parts, (image[None],)), label[None])

    row = torch.cat([value.detach().reshape(-1) for value in values])
    return vmap(torch.func.hessian(loss), (None, 0, 0))(row, x, y)


class Known:
    """What Products is to estimates, of Hessians (images, n, n) that are known, their images in ``parts``."""

    def __init__(self, hessians: torch.Tensor, parts: int, block: int = 4):
        self.forms = [part.mean(dim=0) for part in hessians.tensor_split(parts)]
        self.whole, self.block, self.size, self.done = hessians.mean(dim=0), block, hessians.shape[1], 0
        self.parameters = [hessians]

    def __call__(self, vectors):
        self.done += len(vectors)
        return vectors @ self.whole

    def with_forms(self, vectors):
        return self(vectors), torch.stack([vectors @ form @ vectors.T for form in self.forms])


def test_products_and_parts_are_those_of_the_single_images(single):
    batches = split_images((1, 6, 6), 5, EVERY)  # of four images each
    parts = [batches[start : start + 6] for start in range(0, 24, 6)]
    products = HessianProducts(cnn(), cross_entropy, batches, 3, parts=parts)
    torch.testing.assert_close(exact(products), single.mean(dim=0), rtol=1e-9, atol=1e-12)
    vectors = torch.randn(5, products.size, dtype=torch.double, generator=torch.Generator().manual_seed(3))
    found, forms = products.with_forms(vectors)
    known = Known(single, 4)
    torch.testing.assert_close(found, known(vectors), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(forms, known.with_forms(vectors)[1], rtol=1e-9, atol=1e-12)
    assert products.done == 5


@pytest.fixture(scope="module")
def analysed(single) -> list[Estimates]:
    """What files say of images drawn and split at random, REPEATS times."""
    found = []
    for seed in range(REPEATS):
        products = Known(single[chosen(seed)], PARTS)
        known = hessian_eigen.top(products, draw_of_signs(products, "eigenvalues", seed), 2, tolerance=1e-3, most=600)
        traced = estimates.trace(products, draw_of_signs(products, "trace", seed), known, error=1e-9, most=32)
        found.append(summary.summarise(known, traced, DRAWN / EVERY))
    return found


def chosen(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).choice(EVERY, DRAWN, replace=False)


def test_the_error_of_the_choice_of_images_is_what_numbers_vary_by(single, analysed):
    """The traces of the images drawn, without random vectors, against the error that is stated of each choice."""
    traces = single.diagonal(dim1=1, dim2=2).sum(dim=1).numpy()
    varied = {
        "trace": [traces[chosen(seed)].mean() for seed in range(REPEATS)],
        "top_eigenvalue": [one.top_eigenvalue for one in analysed],
    }
    for name, values in varied.items():
        stated = math.sqrt(np.mean([getattr(one, f"{name}_images_error") ** 2 for one in analysed]))
        assert stated == pytest.approx(np.std(values, ddof=1), rel=0.15)


def test_errors_of_parts_by_hand():
    """Parts 1, 3, 5, 7: deviation sqrt(20 / 3), of their mean half of that; of all but a quarter drawn, sqrt(3/4)."""
    parts = [1.0, 3.0, 5.0, 7.0]
    assert summary.error_of_mean(parts, 0.25) == pytest.approx(math.sqrt(20 / 3) / 2 * math.sqrt(0.75))
    forms = np.array(parts)[:, None, None] * np.diag([1.0, 0.5])
    assert summary.error_of_largest(forms, 0.25) == pytest.approx(summary.error_of_mean(parts, 0.25))
    assert summary.error_of_mean(parts, 1.0) == summary.error_of_largest(forms, 1.0) == 0
    # Without one part the largest is 10/3, 10/3, 2 and 7/3, the last of the other vector.
    forms = np.stack([np.diag(pair) for pair in [(0.0, 3.0), (0.0, 3.0), (4.0, 1.0), (6.0, 0.0)]])
    without = np.array([10 / 3, 10 / 3, 2, 7 / 3])
    assert summary.error_of_largest(forms, 0.0) == pytest.approx(
        math.sqrt(3 / 4 * ((without - without.mean()) ** 2).sum())
    )


# What scaling cannot change.


class Plain(nn.Sequential):
    """ReLU without normalisation."""

    def __init__(self):
        super().__init__(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Conv2d(3, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3))

    def rescaled(self):
        """One filter with its bias is made 5 times as long, what reads its output a fifth; another a third."""
        with torch.no_grad():
            for number, factor in ((0, 5.0), (2, 1 / 3)):
                self[0].weight[number] *= factor
                self[0].bias[number] *= factor
                self[2].weight[:, number] /= factor


class Normalised(nn.Sequential):
    """Filters ahead of a GroupNorm of two filters a group, and its scale and shift ahead of a ReLU."""

    def __init__(self):
        layers = nn.Conv2d(1, 4, 3, bias=False), nn.GroupNorm(2, 4, eps=0), nn.ReLU(), nn.Flatten()
        super().__init__(*layers, nn.Linear(64, 3))

    def rescaled(self):
        with torch.no_grad():
            self[0].weight[:2] *= 7
            self[1].weight[3] *= 4
            self[1].bias[3] *= 4
            self[4].weight.view(3, 4, 16)[:, 3] /= 4


@pytest.mark.parametrize("kind", [Plain, Normalised])
def test_what_no_scaling_can_change(kind):
    batches = split_images((1, 6, 6), 3)
    model = seeded(kind())
    other = copy.deepcopy(model)
    other.rescaled()
    x = torch.cat([part for part, _ in batches])
    torch.testing.assert_close(other(x), model(x), rtol=1e-12, atol=1e-12)
    spectra, means = [], []
    for one in (model, other):
        row = torch.cat([parameter.detach().reshape(-1) for parameter in one.parameters()]).abs()
        assert len(row) <= 350
        raw, scaled = (HessianProducts(one, cross_entropy, batches, 4, scale=scale) for scale in (None, row))
        whole = row[:, None] * exact(raw) * row
        torch.testing.assert_close(scaled(torch.eye(len(row)).double()), whole, rtol=1e-9, atol=1e-12)
        spectra.append([torch.linalg.eigvalsh(matrix) for matrix in (whole, exact(raw))])
        known = hessian_eigen.top(scaled, draw_of_signs(scaled, "eigenvalues"), 3, tolerance=1e-6, most=600)
        torch.testing.assert_close(known.values, spectra[-1][0].flip(0)[:3], rtol=1e-9, atol=1e-12)
        traced = estimates.trace(scaled, draw_of_signs(scaled, "trace"), known, error=0.01, most=64)
        assert abs(traced.value - float(whole.trace())) <= 4 * traced.standard_error
        means.append([*known.values.tolist(), traced.value, traced.standard_error])
    (scaled, raw), (scaled_again, raw_again) = spectra
    torch.testing.assert_close(scaled_again, scaled, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(means[1], means[0], rtol=1e-8)
    assert abs(raw_again[-1] / raw[-1] - 1) > 0.2 and abs(raw_again.sum() / raw.sum() - 1) > 0.2


# Eigenvalues that occur often, few parameters.


def repeated(copies: int) -> HessianProducts:
    spectrum = torch.cat([torch.full((copies,), 3.0), torch.linspace(1, -1, SIZE - copies)]).double()
    rotation = torch.linalg.eigh(MATRIX)[1]
    return quadratic(rotation @ spectrum.diag() @ rotation.T)


@pytest.mark.parametrize(("copies", "sure"), [(2, 5), (3, 5), (4, 4), (6, 4)])
def test_as_many_copies_are_found_as_a_block_has_vectors(copies, sure):
    """A block of four finds four copies; whether there are more, and so what comes fifth, it cannot tell."""
    products = repeated(copies)
    found = hessian_eigen.top(products, draw_of_signs(products, "eigenvalues"), 5, tolerance=0.01, most=600)
    assert found.converged
    truth = torch.tensor([3.0] * copies + [1.0] * 5).double()[:5]
    torch.testing.assert_close(found.values[:sure], truth[:sure], rtol=0, atol=0.05)
    assert copies != 6 or found.values[4] < 2, "the copy that is missed"


def test_all_copies_are_found_where_the_whole_space_is_searched():
    spectrum = torch.tensor([3.0] * 6 + [1.0] * 5 + [0.0]).double()
    products = quadratic(spectrum.diag())
    found = hessian_eigen.top(products, draw_of_signs(products, "eigenvalues"), 12, tolerance=1e-6, most=600)
    torch.testing.assert_close(found.values, spectrum)


@pytest.mark.parametrize("size", [3, 4, 5, 8, 15])
def test_models_of_few_parameters_have_no_eigenvalue_above_the_largest(size):
    """Random signs depend on each other there: of four of three parameters each, always."""
    generator = torch.Generator().manual_seed(size)
    for seed in range(20):
        matrix = torch.randn(size, size, dtype=torch.double, generator=generator)
        matrix = matrix + matrix.T
        products = quadratic(matrix)
        count = min(size, 4)
        drawn = draw_of_signs(products, "eigenvalues", seed)
        found = hessian_eigen.top(products, drawn, count, tolerance=1e-8, most=600)
        truth = torch.linalg.eigvalsh(matrix).flip(0)[:count]
        torch.testing.assert_close(found.values, truth, rtol=0, atol=1e-9 * float(truth.abs().max()))
        torch.testing.assert_close(found.vectors @ found.vectors.T, torch.eye(count).double(), rtol=0, atol=1e-12)


def test_a_block_that_nearly_depends_on_itself_stays_orthonormal():
    """Rows that differ by little more than rounding: what is left of the second is orthogonal to all the same."""
    basis = torch.linalg.qr(torch.randn(30, 5, dtype=torch.double, generator=torch.Generator().manual_seed(0)))[0].T
    rows = torch.ones(2, 30).double()
    rows[1, 0] += 1e-11
    rows -= (rows @ basis.T) @ basis
    spares = (torch.arange(30).double() ** power for power in itertools.count(1))
    found = torch.cat([basis, hessian_eigen._orthonormal(rows, basis, 2, 1.0, spares)])
    torch.testing.assert_close(found @ found.T, torch.eye(7).double(), rtol=0, atol=1e-12)
