"""Triton's kernels, where a GPU has them."""

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
