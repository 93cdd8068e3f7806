"""GroupNorm of all rows at once, with the shortcut and the ReLU behind it.

Without vmap, :class:`RowGroupNorm` only supports inference.

Shapes: R rows, B images of a row, H x W pixels, C channels. Images of several rows are channels-last: (R, B, H, W, C).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import group_norm

from flatfed.engine.second_stream import on_second_stream
from flatfed.engine.speed.acceleration import channels_first, channels_last, kernels_for, rows_first
from flatfed.models.resnet18_gn import Norm

accelerated_for = partial(kernels_for, module="norm_kernels")


class BatchedNorm(torch.autograd.Function):
    """relu(GroupNorm(images) + shortcut) of R rows; ``shortcut`` may be None, ``rectify`` False omits the ReLU.

    ``images``, ``shortcut`` and result (R, B, H, W, C), contiguous; ``scale`` and ``shift`` (R, C).
    """

    @staticmethod
    def forward(
        ctx: Any,
        images: Tensor,
        scale: Tensor,
        shift: Tensor,
        shortcut: Tensor | None,
        groups: int,
        epsilon: float,
        rectify: bool,
    ) -> Tensor:
        ctx.groups, ctx.has_shortcut, ctx.rectify = groups, shortcut is not None, rectify
        # Only the ReLU's gradient needs the result: without it, the model may change the result in place.
        kernels = accelerated_for(images)
        ctx.kernels = kernels if kernels and kernels.supports_norm(images, groups) else None
        if ctx.kernels:
            settings = shortcut, groups, epsilon, rectify
            result, mean, inverse_deviation = kernels.norm_forward(images, scale, shift, *settings)
            ctx.save_for_backward(images, result if rectify else images, scale, mean, inverse_deviation)
            return result
        grouped = BatchedNorm.by_group(images, groups)
        variance, mean = torch.var_mean(grouped, dim=(2, 4), correction=0, keepdim=True)
        inverse_deviation = (variance + epsilon).rsqrt()  # (R, B, 1, groups, 1)
        normalised = ((grouped - mean) * inverse_deviation).view(images.shape)
        result = normalised * scale[:, None, None, None] + shift[:, None, None, None]
        result = result if shortcut is None else result + shortcut
        result = result.relu() if rectify else result
        ctx.save_for_backward(normalised, result if rectify else None, scale, inverse_deviation)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradient = gradient.contiguous()
        if ctx.kernels:
            options = ctx.has_shortcut, ctx.rectify
            images_gradient, by_image, shortcut_gradient = ctx.kernels.norm_backward(
                gradient, *ctx.saved_tensors, *options
            )
            scale = ctx.saved_tensors[2]
            scale_gradient, shift_gradient = on_second_stream(
                lambda: by_image.sum(dim=2).to(gradient.dtype), scale, by_image
            )
            return images_gradient, scale_gradient, shift_gradient, shortcut_gradient, None, None, None
        normalised, result, scale, inverse_deviation = ctx.saved_tensors
        if ctx.rectify:
            gradient = gradient * (result > 0)
        scale_gradient, shift_gradient = (gradient * normalised).sum(dim=(1, 2, 3)), gradient.sum(dim=(1, 2, 3))
        scaled = BatchedNorm.by_group(gradient * scale[:, None, None, None], ctx.groups)
        grouped = BatchedNorm.by_group(normalised, ctx.groups)
        mean, slope = (values.mean(dim=(2, 4), keepdim=True) for values in (scaled, scaled * grouped))
        images_gradient = ((scaled - mean - grouped * slope) * inverse_deviation).view(gradient.shape)
        return images_gradient, scale_gradient, shift_gradient, gradient if ctx.has_shortcut else None, None, None, None

    @staticmethod
    def by_group(images: Tensor, groups: int) -> Tensor:
        """Return a view (R, B, H W, groups, C / groups) of ``images`` (R, B, H, W, C)."""
        return images.flatten(2, 3).unflatten(-1, (groups, -1))


class RowNorm(torch.autograd.Function):
    """:class:`BatchedNorm` of one row: images (B, C, H, W), scale and shift (C,)."""

    @staticmethod
    def forward(images: Tensor, scale: Tensor, shift: Tensor, shortcut: Tensor | None, *settings: Any) -> Tensor:
        groups, epsilon, rectify = settings
        if accelerated_for(images):
            shortcut = shortcut if shortcut is None else channels_last(shortcut[None])
            result = BatchedNorm.apply(channels_last(images[None]), scale[None], shift[None], shortcut, *settings)
            return channels_first(result)[0]
        result = group_norm(images, groups, scale, shift, epsilon)
        result = result if shortcut is None else result + shortcut
        return result.relu() if rectify else result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Save nothing: only :meth:`vmap` supports gradients."""

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        tensors = zip(inputs[:4], dims[:4], strict=True)
        images, scale, shift, shortcut = (
            tensor if tensor is None else rows_first(tensor, dim, info.batch_size) for tensor, dim in tensors
        )
        shortcut = shortcut if shortcut is None else channels_last(shortcut)
        return channels_first(BatchedNorm.apply(channels_last(images), scale, shift, shortcut, *inputs[4:])), 0


class RowGroupNorm(Norm):
    def forward(self, images: Tensor, shortcut: Tensor | None = None, rectify: bool = False) -> Tensor:
        if images.dim() != 4:
            return super().forward(images, shortcut, rectify)
        return RowNorm.apply(images, self.weight, self.bias, shortcut, self.num_groups, self.eps, rectify)
