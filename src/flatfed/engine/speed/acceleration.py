"""Triton kernels and a second stream, where a GPU has them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from functools import cache
from types import ModuleType

import torch
from torch import Tensor

SECOND = cache(lambda device: torch.cuda.Stream(device))
HELD: list[Tensor] = []

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # Triton's kernels also run on a CPU, slowly


def kernels_for(tensor: Tensor, module: str) -> ModuleType | None:
    """Return the kernels in ``module`` of this folder if they support ``tensor``: on a GPU in float32 and bfloat16.

    None without Triton, which comes with torch's CUDA builds.
    """
    supported = tensor.is_cuda and tensor.dtype in (torch.float32, torch.bfloat16)
    if not (supported or INTERPRETED) or importlib.util.find_spec("triton") is None:
        return None
    return importlib.import_module(f"flatfed.engine.speed.{module}")


def aside(work: Callable[[], Tensor], *inputs: Tensor) -> Tensor:
    """Return ``work()``, on a GPU from a second stream, which reads ``inputs``; :func:`join` waits for it.

    The gradients of the parameters are needed last, so they need not delay those of the images.
    """
    if not inputs[0].is_cuda:
        return work()
    stream = SECOND(inputs[0].device)
    stream.wait_stream(torch.cuda.current_stream(inputs[0].device))
    HELD.extend(inputs)  # until the join, nothing else may use their memory
    with torch.cuda.stream(stream):
        return work()


def join() -> None:
    """Let the current stream wait for the work of :func:`aside`."""
    if HELD:
        torch.cuda.current_stream(HELD[0].device).wait_stream(SECOND(HELD[0].device))
        HELD.clear()
