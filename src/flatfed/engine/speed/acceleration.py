"""What the layers of all rows share: Triton's kernels, where a GPU has them, and the order of dimensions."""

from __future__ import annotations

import importlib.util
import os
from types import ModuleType

import torch
from torch import Tensor

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # the kernels also run on a CPU, slowly
LARGEST = 1 << 31  # elements of a row: kernels count in 32 bits within it


def kernels_for(tensor: Tensor, module: str) -> ModuleType | None:
    """Return the kernels in ``module`` of this folder if they support ``tensor`` (rows, ...).

    They run on a GPU in float32 and bfloat16. None without Triton, which comes with torch's CUDA builds.
    """
    supported = tensor.is_cuda and tensor.dtype in (torch.float32, torch.bfloat16) and tensor[0].numel() < LARGEST
    if not (supported or INTERPRETED) or importlib.util.find_spec("triton") is None:
        return None
    return importlib.import_module(f"flatfed.engine.speed.{module}")


def rows_first(tensor: Tensor, dim: int | None, rows: int) -> Tensor:
    """Return ``tensor`` of a vmap rule with the rows in front; ``dim`` None: the rows share the tensor."""
    return tensor.expand(rows, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def channels_last(images: Tensor) -> Tensor:
    """Return ``images`` (R, B, C, H, W) as contiguous (R, B, H, W, C); no copy if their memory has this order."""
    return images.permute(0, 1, 3, 4, 2).contiguous()


def channels_first(images: Tensor) -> Tensor:
    """Return a view (R, B, C, H, W) of ``images`` (R, B, H, W, C)."""
    return images.permute(0, 1, 4, 2, 3)
