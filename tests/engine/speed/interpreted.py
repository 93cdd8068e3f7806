"""Triton's kernels on a CPU, by its interpreter: a process of its own for test_row_layers.py, with TRITON_INTERPRET=1.

Compared with torch in float32: sizes that do not fill a tile, strides, cropped images, rows of a wider matrix.
"""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d, group_norm, pad

from flatfed.engine.job import assembly
from flatfed.engine.speed import convolution_kernels, norm_kernels, row_convolution, row_norm, taps, update_kernel
from flatfed.engine.speed.recording import FusedUpdate
from harness import description, needs, simulation, write_problem

ROWS, IMAGES = 2, 3
#: image, channels, output channels, kernel, stride, border (left, right, top, bottom), whether without columns
CONVOLUTIONS = [
    ((5, 5), 32, 16, (3, 3), (1, 1), (1, 1, 1, 1), True),
    ((5, 7), 16, 32, (3, 3), (2, 2), (1, 1, 1, 1), True),
    ((7, 7), 16, 48, (3, 3), (1, 1), (-1, 0, -1, 1), True),
    ((4, 4), 32, 48, (1, 1), (2, 2), (0, 0, 0, 0), False),
    ((9, 9), 3, 16, (7, 7), (2, 2), (3, 3, 3, 3), False),
    ((9, 7), 20, 10, (3, 2), (2, 1), (1, 0, 1, 2), False),
    ((3, 3), 16, 16, (1, 1), (2, 2), (0, -1, 0, -1), False),
    ((5, 4), 6, 5, (2, 2), (2, 1), (-1, 1, -2, 0), False),
]
#: side, channels, groups, shortcut, ReLU
NORMS = [(8, 64, 2, True, True), (3, 16, 4, False, True), (1, 32, 2, False, False), (5, 8, 8, True, False)]


@pytest.fixture(autouse=True)
def calls(monkeypatch) -> list[str]:
    """Return the names of the kernels' functions that a test has called."""
    calls = []

    def note(kernels, name):
        function = getattr(kernels, name)
        monkeypatch.setattr(kernels, name, lambda *a, **k: (calls.append(name), function(*a, **k))[1])

    for name in ("columns", "fold", "implicit_product"):
        note(convolution_kernels, name)
    for name in ("norm_forward", "norm_backward"):
        note(norm_kernels, name)
    note(update_kernel, "descend")
    torch.manual_seed(0)
    return calls


def same(found: tuple[Tensor, tuple[Tensor, ...]], expected: tuple[Tensor, tuple[Tensor, ...]]) -> None:
    for one, other in zip((found[0], *found[1]), (expected[0], *expected[1]), strict=True):
        assert one.shape == other.shape and (one - other).abs().max() <= 1e-5 * other.abs().max()


def with_gradients(result: Tensor, *leaves: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    slopes = torch.randn(result.shape, generator=torch.Generator().manual_seed(1))
    return result.detach(), torch.autograd.grad(result, leaves, slopes)


@pytest.mark.parametrize(("size", "channels", "outputs", "kernel", "stride", "border", "implicit"), CONVOLUTIONS)
def test_convolutions(calls, size, channels, outputs, kernel, stride, border, implicit):
    window = taps.Window(kernel, stride, border)
    images = torch.randn(ROWS, IMAGES, *size, channels, requires_grad=True)
    row = torch.randn(ROWS, outputs * channels * window.taps + 7)  # longer than the layer
    weights = row[:, 3:-4].view(ROWS, outputs, *kernel, channels).requires_grad_()
    parts = zip(images.permute(0, 1, 4, 2, 3), weights.permute(0, 1, 4, 2, 3), strict=True)
    expected = torch.stack([conv2d(pad(x, border), w, None, stride).permute(0, 2, 3, 1) for x, w in parts])
    found = row_convolution.Convolution.apply(images, weights, window, window.output_size(size))
    same(with_gradients(found, images, weights), with_gradients(expected, images, weights))
    assert ("implicit_product" in calls) == implicit
    assert calls.count("implicit_product") == implicit * (1 + (stride == (1, 1)))


@pytest.mark.parametrize(("side", "channels", "groups", "has_shortcut", "rectify"), NORMS)
def test_norms(calls, side, channels, groups, has_shortcut, rectify):
    images, shortcut = (torch.randn(ROWS, IMAGES, side, side, channels, requires_grad=True) for _ in range(2))
    row = torch.randn(ROWS, 2 * channels + 3)
    scale, shift = row[:, :channels].requires_grad_(), row[:, channels:-3].requires_grad_()
    parts = zip(images.permute(0, 1, 4, 2, 3), scale, shift, strict=True)
    expected = torch.stack([group_norm(x, groups, a, b, 1e-5).permute(0, 2, 3, 1) for x, a, b in parts])
    expected = expected + (shortcut if has_shortcut else 0)
    leaves = (images, scale, shift, shortcut)[: 3 + has_shortcut]
    found = row_norm.BatchedNorm.apply(images, scale, shift, shortcut if has_shortcut else None, groups, 1e-5, rectify)
    found = found if rectify else found.mul_(1)  # as a model's own ReLU in place
    same(with_gradients(found, *leaves), with_gradients(expected.relu() if rectify else expected, *leaves))
    assert calls == ["norm_forward", "norm_backward"]


def test_norms_that_the_kernels_do_not_support(calls):
    images = torch.randn(1, 2, 3, 3, 12)
    row_norm.BatchedNorm.apply(images, torch.ones(1, 12), torch.zeros(1, 12), None, 3, 1e-5, False)
    assert not calls and not norm_kernels.supports_norm(torch.empty(1, 1, 64, 64, 8), 2)


def test_descend_of_rows_of_a_wider_matrix():
    w, d = torch.randn(3, 5003)[:, :5000], torch.randn(3, 5001)[:, 1:]
    factors = torch.rand(3)
    expected = w - 0.1 * (factors[:, None] * d + 0.01 * w)
    update_kernel.descend(w, d, factors, torch.tensor(0.1), 0.01)
    assert (w - expected).abs().max() < 1e-6


@pytest.mark.parametrize(
    ("name", "params", "fused"),
    [("fedavg", {}, True), ("fedprox", {"mu": 0.3}, True), ("dfedavgm", {}, False), ("fedrobust", {}, True)],
)
@pytest.mark.parametrize("clip", [1.5, None])
def test_the_fused_update(tmp_path, monkeypatch, calls, name, params, fused, clip):
    """Not for an algorithm with an update of its own."""
    write_problem(tmp_path)
    spec = description(name, params, precision="float32", local_epochs=1, clip_norm=clip, **needs(name))
    plain = simulation(tmp_path, spec, "stacked")
    monkeypatch.setattr(assembly, "LocalUpdate", FusedUpdate)  # as products has it
    run = simulation(tmp_path, spec, "stacked")
    line, expected = run.advance(), plain.advance()
    assert ("descend" in calls) == fused
    assert line["test_loss"] == pytest.approx(expected["test_loss"], rel=1e-5)
    moved = (plain.server["w"] - plain.weights.initial).abs().max()
    assert (run.server["w"] - plain.server["w"]).abs().max() <= 1e-5 * moved
