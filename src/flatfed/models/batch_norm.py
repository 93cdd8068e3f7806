"""BatchNorm: its buffers as one row, and layers that leave padded images out of the statistics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from flatfed.algorithms._layout import Layout
from flatfed.errors import ConfigError

COUNT = "num_batches_tracked"
KEYS = ("running_mean", "running_var", COUNT)


def layers(module: nn.Module) -> dict[str, _BatchNorm]:
    """Return the BatchNorm layers of ``module`` by name."""
    return {name: layer for name, layer in module.named_modules() if isinstance(layer, _BatchNorm)}


def buffer_layout(module: nn.Module) -> Layout:
    """Return names and shapes of the buffers that training passes of ``module`` update, in the order of a flat row."""
    paths = {layer: f"{name}." if name else "" for name, layer in layers(module).items()}
    buffers = {f"{paths[layer]}{key}": getattr(layer, key) for layer in paths for key in KEYS}
    shapes = {name: tuple(value.shape) for name, value in buffers.items() if value is not None}
    return Layout(tuple(shapes), tuple(shapes.values()))


def join_buffers(module: nn.Module, like: Tensor) -> Tensor:
    """Return the buffers of ``module`` as a row (1, size) of the dtype and device of ``like``.

    The buffers of ``module`` become views of the row, counts of passes included.
    """
    layout = buffer_layout(module)
    row = like.new_empty(1, layout.size)
    for name, view in layout.views(row[0]).items():
        view.copy_(module.get_buffer(name))
        path, _, key = name.rpartition(".")
        setattr(module.get_submodule(path), key, view)
    return row


def mean_buffers(rows: Tensor, layout: Layout) -> Tensor:
    """Return the mean (1, size) of the buffers ``rows`` (n, size); counts of passes are rounded."""
    return rounded(rows.mean(dim=0, keepdim=True), layout)


def rounded(rows: Tensor, layout: Layout) -> Tensor:
    """Round the counts of passes in the buffers ``rows`` (n, size), in place."""
    for name, values in layout.views(rows).items():
        if name.endswith(COUNT):
            values.round_()
    return rows


def image_weights(module: nn.Module) -> list[str]:
    """Return the names of the image weights that the layers of ``module`` need (:func:`leave_out_padding`)."""
    named = layers(module).items()
    return [f"{name}.image_weights".lstrip(".") for name, layer in named if isinstance(layer, UnpaddedBatchNorm)]


@contextmanager
def running_statistics(*modules: nn.Module) -> Iterator[None]:
    """Let the BatchNorm layers of ``modules`` use their running statistics, which passes then leave as they are."""
    training = [layer for module in modules for layer in layers(module).values() if layer.training]
    for layer in training:
        layer.eval()
    try:
        yield
    finally:
        for layer in training:
            layer.train()


class UnpaddedBatchNorm(_BatchNorm):
    """BatchNorm whose statistics are those of the images with a weight above 0, in float32 or the layer's precision.

    ``image_weights`` (B,): weights of the batch's images in the loss, equal or 0; without them it is torch's layer.
    """

    image_weights: Tensor
    path: str

    def forward(self, x: Tensor) -> Tensor:
        weights = self.image_weights
        if not len(weights):
            return super().forward(x)
        self._check_input_dim(x)
        if len(x) != len(weights):
            problem = f"layer {self.path!r} ({type(self).__name__}) gets {len(x)} rows for {len(weights)} images"
            raise ConfigError(f"{problem}, so padding would enter its statistics; use `executor: sequential`")
        values = x.to(torch.promote_types(x.dtype, torch.float32))
        shape = (1, -1, *[1] * (x.dim() - 2))
        if self.training or self.running_mean is None:
            if x.numel() == x.shape[1]:
                raise ConfigError(f"layer {self.path!r} ({type(self).__name__}) gets one value: it has no variance")
            values_of_image = x[0, 0].numel()
            dims, share = [0, *range(2, x.dim())], weights / (weights.sum() * values_of_image)
            share = share.to(values).view(-1, *[1] * (x.dim() - 1))
            mean = (values * share).sum(dims, keepdim=True)
            variance = ((values - mean).square() * share).sum(dims, keepdim=True)
            if self.training and self.track_running_stats:
                count = (weights > 0).to(values).sum() * values_of_image
                self._update(mean.detach().flatten(), variance.detach().flatten(), count)
        else:
            mean, variance = self.running_mean.view(shape), self.running_var.view(shape)
        result = (values - mean) * (variance + self.eps).rsqrt()
        if self.weight is not None:
            result = result * self.weight.view(shape)
        if self.bias is not None:
            result = result + self.bias.view(shape)
        return result.to(x.dtype)

    def _update(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Move the running statistics to those of a batch with ``count`` values per channel, as torch does."""
        factor = self.momentum
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            factor = 1 / self.num_batches_tracked if factor is None else factor
        factor = 0.0 if factor is None else factor
        unbiased = variance * (count / (count - 1))
        for running, value in ((self.running_mean, mean), (self.running_var, unbiased)):
            running.mul_(1 - factor).add_(factor * value)


def leave_out_padding(module: nn.Module) -> None:
    """Give the BatchNorm layers of ``module`` statistics without padding, in place (:class:`UnpaddedBatchNorm`)."""
    for path, layer in layers(module).items():
        kind, layer.path = type(layer), path
        layer.register_buffer("image_weights", torch.empty(0), persistent=False)
        layer.__class__ = type(kind.__name__, (kind, UnpaddedBatchNorm), {})  # a subclass may add to forward
