"""Dead taps: weights of convolutions that only see padding, stored as one coordinate.

With the 7x7 stem, ResNet-18's last stage has images of one pixel: 62 % of all weights only see padding and get no
gradient. An algorithm that treats all weights alike only scales their initial value u: their part of every vector is a
number times u. That number times ||u|| is one coordinate; norms, clips and inner products stay the same.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

from flatfed.algorithms._layout import Layout
from flatfed.models import batch_norm

CHECKED = 2  # random images in the comparison of both models
TOLERANCE = 1e-4  # largest difference of their float32 outputs, relative to the largest output


Sides = tuple[int, int]


@dataclass(frozen=True)
class Window:
    """How a convolution moves over images; ``border``: padding (left, right, top, bottom), negative to crop."""

    kernel: Sides
    stride: Sides
    border: tuple[int, ...]

    @classmethod
    def of(cls, layer: nn.Conv2d) -> Window:
        """Return the window of ``layer``, :class:`Cropped` or plain."""
        high, wide = layer.padding
        return cls(layer.kernel_size, layer.stride, getattr(layer, "border", (wide, wide, high, high)))

    @property
    def corner(self) -> Sides:
        """Padding (top, left)."""
        return self.border[2], self.border[0]

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1]

    def settings(self) -> tuple[int, ...]:
        """Return what kernels need of the window."""
        return (self.taps, self.kernel[1], *self.stride, *self.corner)

    def output_size(self, size: Sides) -> Sides:
        """Return (H', W') for images of ``size`` (H, W)."""
        left, right, top, bottom = self.border
        padded = size[0] + top + bottom, size[1] + left + right
        height, width = ((padded[i] - self.kernel[i]) // self.stride[i] + 1 for i in range(2))
        return height, width

    def convolve(self, images: Tensor, kernels: Tensor, bias: Tensor | None = None, groups: int = 1) -> Tensor:
        """Return the convolution (B, O, H', W') of ``images`` (B, C, H, W)."""
        left, right, top, bottom = self.border
        if left == right >= 0 and top == bottom >= 0:
            return conv2d(images, kernels, bias, self.stride, self.corner, groups=groups)
        return conv2d(pad(images, self.border), kernels, bias, self.stride, groups=groups)


class Cropped(nn.Conv2d):
    """A convolution without its dead taps: the kernel's live window, on the padded or cropped input."""

    def __init__(self, full: nn.Conv2d, window: tuple[slice, slice], size: Sides):
        kernel = tuple(part.stop - part.start for part in window)
        channels, bias = (full.in_channels, full.out_channels), full.bias is not None
        super().__init__(*channels, kernel, full.stride, groups=full.groups, bias=bias)
        vars(self).update({name: hooks for name, hooks in vars(full).items() if "hook" in name})
        self.border: tuple[int, ...] = ()
        for side, count, part, width, step, low in zip(
            size, Window.of(full).output_size(size), window, kernel, full.stride, full.padding, strict=True
        ):
            before = low - part.start
            after = (count - 1) * step + width - side - before
            self.border = (before, after, *self.border)  # pad starts with the last dimension

    def forward(self, images: Tensor) -> Tensor:
        return Window.of(self).convolve(images, self.weight, self.bias, self.groups)


@dataclass(frozen=True)
class LiveTaps:
    """A model without dead taps, and the conversion of its rows from and to the full model.

    ``layout`` of the cropped ``model`` has extra coordinates: the first for the dead weights, others zero. ``full``:
    layout of the full model; ``windows``: name -> live window of a kernel; ``dead`` (n,): initial values of the dead
    weights.
    """

    model: nn.Module
    layout: Layout
    full: Layout
    windows: dict[str, tuple[slice, slice]]
    dead: Tensor

    def reduce(self, row: Tensor) -> Tensor:
        """Return the row (layout.size,) of a full ``row`` (parameters,) with dead weights along ``dead``."""
        dead, norm = self._dead(row.device)
        reduced = row.new_zeros(self.layout.size)
        for name, values in self.layout.views(reduced).items():
            values.copy_(self._live(name, self.full.views(row)[name]))
        reduced[self.layout.tensor_size] = row[self._mask(row.device)].double() @ dead / norm
        return reduced

    def expand(self, row: Tensor) -> Tensor:
        """Return the full row (parameters,) of a reduced ``row`` (layout.size,)."""
        dead, norm = self._dead(row.device)
        full = torch.empty(self.full.size, dtype=row.dtype, device=row.device)
        full[self._mask(row.device)] = (dead * (row[self.layout.tensor_size].double() / norm)).to(row)
        views = self.full.views(full)
        for name, values in self.layout.views(row).items():
            self._live(name, views[name]).copy_(values)
        return full

    def _live(self, name: str, values: Tensor) -> Tensor:
        """Return the live part of tensor ``name`` of the full model, a view."""
        return values[(..., *self.windows[name])] if name in self.windows else values

    def _dead(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the dead weights' initial values (n,) and their norm, in float64."""
        norm = self.dead.double().norm().clamp(min=torch.finfo(torch.float64).tiny)
        return self.dead.to(device).double(), norm.to(device)

    def _mask(self, device: torch.device) -> Tensor:
        """Return (parameters,) True for dead weights."""
        mask = torch.zeros(self.full.size, dtype=torch.bool)
        views = self.full.views(mask)
        for name, window in self.windows.items():
            views[name].fill_(True)[(..., *window)] = False
        return mask.to(device)


def live_taps(model: nn.Module, shape: tuple[int, int, int], initial: Tensor) -> LiveTaps | None:
    """Return ``model`` without the taps that images of ``shape`` (C, H, W) never reach.

    None if it has no such taps, if the cropped model has other outputs or tied layers, or if dead weights have a
    gradient. ``initial`` (parameters,): its initial weights.
    """
    sizes, full = image_sizes(model, shape), Layout.of(model)
    windows = {name: _window(model.get_submodule(name), size) for name, size in sizes.items()}
    windows = {
        name: window
        for name, window in windows.items()
        if [part.stop - part.start for part in window] != list(model.get_submodule(name).kernel_size)
        and f"{name}.weight" in full.names
    }
    if not windows:
        return None
    small = copy.deepcopy(model)
    for name, window in windows.items():
        small.set_submodule(name, Cropped(model.get_submodule(name), window, sizes[name]))
    layout = replace(Layout.of(small), extra=1)
    if layout.names != full.names:
        return None
    taps = LiveTaps(small, layout, full, {f"{name}.weight": window for name, window in windows.items()}, torch.empty(0))
    taps = replace(taps, dead=initial.cpu()[taps._mask(torch.device("cpu"))])
    with batch_norm.running_statistics(model, small):
        return taps if _equivalent(model, taps, shape, initial) else None


def all_taps(model: nn.Module) -> LiveTaps:
    """Return ``model`` with all its taps."""
    layout = Layout.of(model)
    return LiveTaps(model, replace(layout, extra=1), layout, {}, torch.empty(0))


def image_sizes(model: nn.Module, shape: tuple[int, int, int]) -> dict[str, Sides]:
    """Return name -> (H, W) of the images that reach each plain convolution with one image size."""
    seen: dict[str, set[Sides]] = {}
    handles = []
    for name, layer in model.named_modules():
        plain = type(layer) in (nn.Conv2d, Cropped) and layer.padding_mode == "zeros" and layer.dilation == (1, 1)
        if plain and not isinstance(layer.padding, str):

            def note(_, inputs, name=name):
                seen.setdefault(name, set()).add(tuple(inputs[0].shape[-2:]))

            handles.append(layer.register_forward_pre_hook(note))
    reference = next(filter(torch.is_floating_point, model.parameters()))
    with batch_norm.running_statistics(model), torch.no_grad():
        model(torch.zeros(2, *shape, dtype=reference.dtype, device=reference.device))
    for handle in handles:
        handle.remove()
    return {name: shapes.pop() for name, shapes in seen.items() if len(shapes) == 1}


def _window(layer: nn.Conv2d, size: Sides) -> tuple[slice, slice]:
    """Return the kernel's live window on images of ``size`` (H, W)."""
    parts = []
    for side, count, taps, step, low in zip(
        size, Window.of(layer).output_size(size), layer.kernel_size, layer.stride, layer.padding, strict=True
    ):
        live = [tap for tap in range(taps) if any(0 <= out * step - low + tap < side for out in range(count))]
        parts.append(slice(live[0], live[-1] + 1) if live else slice(0, taps))
    return parts[0], parts[1]


def _equivalent(model: nn.Module, taps: LiveTaps, shape: tuple[int, int, int], initial: Tensor) -> bool:
    images = torch.randn(CHECKED, *shape, generator=torch.Generator().manual_seed(0))
    row = initial.detach().cpu().float().clone().requires_grad_()
    outputs = torch.func.functional_call(copy.deepcopy(model).cpu().float(), taps.full.views(row), (images,))
    (gradient,) = torch.autograd.grad(outputs.square().sum(), row)
    small = taps.layout.views(taps.reduce(row.detach()))
    live_outputs = torch.func.functional_call(copy.deepcopy(taps.model).cpu().float(), small, (images,))
    close = (outputs - live_outputs).abs().max() <= TOLERANCE * outputs.abs().max()
    return bool(close) and not gradient[taps._mask(row.device)].any()
