"""A second CUDA stream for the gradients of parameters, which are needed last and need not delay those of images."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

SECOND = cache(lambda device: torch.cuda.Stream(device))
HELD: list[Tensor] = []  # read on the second stream: until it is done, nothing else may use their memory
SEEN: set[int] = set()  # addresses of the parameters that have a gradient already


def on_second_stream(work: Callable[[], Tensor], parameter: Tensor, *inputs: Tensor) -> Tensor:
    """Return ``work()``, the gradient of ``parameter`` computed from ``inputs``.

    On a GPU it runs on a second stream: call :func:`join` before using the result.
    """
    if not inputs[0].is_cuda:
        return work()
    device = inputs[0].device
    if parameter.data_ptr() in SEEN:  # a layer used twice: autograd adds both gradients on the current stream
        wait()
        return work()
    SEEN.add(parameter.data_ptr())
    SECOND(device).wait_stream(torch.cuda.current_stream(device))
    HELD.extend(inputs)
    with torch.cuda.stream(SECOND(device)):
        return work()


def join() -> None:
    """Let the current stream wait for all gradients of a backward pass."""
    SEEN.clear()
    wait()


def wait() -> None:
    if HELD:
        device = HELD[0].device
        try:
            torch.cuda.current_stream(device).wait_stream(SECOND(device))
        finally:
            HELD.clear()
