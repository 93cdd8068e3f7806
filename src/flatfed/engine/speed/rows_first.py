"""The order of dimensions in vmap rules."""

from __future__ import annotations

from torch import Tensor


def rows_first(tensor: Tensor, dim: int | None, rows: int) -> Tensor:
    """Return ``tensor`` of a vmap rule with the rows in front; ``dim`` None: the rows share the tensor."""
    return tensor.expand(rows, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def channels_last(images: Tensor) -> Tensor:
    """Return ``images`` (R, B, C, H, W) as contiguous (R, B, H, W, C); no copy if their memory has this order."""
    return images.permute(0, 1, 3, 4, 2).contiguous()


def channels_first(images: Tensor) -> Tensor:
    """Return a view (R, B, C, H, W) of ``images`` (R, B, H, W, C)."""
    return images.permute(0, 1, 4, 2, 3)
