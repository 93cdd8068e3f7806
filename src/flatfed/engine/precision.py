"""Formats of numbers, by the name that a run's ``precision`` gives them.

Weights, all state, sums, norms and evaluation are float32 or float64. With ``bfloat16`` they are float32, and a model
computes a training step in bfloat16, from its weights, cast once, to its outputs, of which the loss is float32 again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from flatfed.errors import FlatFedError
from flatfed.runs import host

STATE = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.float32}
SWITCHES = (torch.backends.cuda.matmul, torch.backends.cudnn.conv)  # of a GPU's products of float32


def layers(precision: str) -> torch.dtype | None:
    """Return the format that a model's layers compute a training step in, None where it is that of its weights."""
    return torch.bfloat16 if precision == "bfloat16" else None


def units(description: dict[str, Any], device: torch.device) -> list[str] | None:
    """Return what multiplies bfloat16 where a run in it is trained; None for a run in another precision.

    On a CPU its instruction sets for it: they decide in which order products are added up.
    """
    if description["precision"] != "bfloat16":
        return None
    if device.type != "cpu":
        return ["a GPU"]
    return [name for name in host.BFLOAT16 if name in host.instructions()]


def check_units(description: dict[str, Any], device: torch.device) -> None:
    """Refuse a run in bfloat16 on a CPU that has, or names, no units for it, unless ``emulate_bfloat16`` is set.

    :raises FlatFedError: naming the CPU and the units.
    """
    if units(description, device) != [] or description.get("emulate_bfloat16"):
        return
    known = "has no units for it" if host.instructions() else "does not say here whether it has units for it"
    raise FlatFedError(
        f"precision: bfloat16: {host.processor()} {known} ({', '.join(host.BFLOAT16)}), and would imitate it slowly. "
        "Train in float32, or on another CPU or a GPU; `emulate_bfloat16: true` in the protocol trains here anyway"
    )


def set_tensor_floats() -> None:
    """Let a GPU multiply float32 with the digits of TF32, as the official code does."""
    for switch in SWITCHES:
        switch.fp32_precision = "tf32"


def tensor_floats() -> bool:
    """Return whether a GPU convolves float32 with the digits of TF32."""
    return torch.backends.cudnn.conv.fp32_precision == "tf32"


@contextmanager
def full_precision() -> Iterator[None]:
    """Compute products of float32 in float32 on a GPU, too.

    Averages of models, and products with a Hessian, would lose half of their digits.
    """
    before = [switch.fp32_precision for switch in SWITCHES]
    for switch in SWITCHES:
        switch.fp32_precision = "ieee"
    try:
        yield
    finally:
        for switch, value in zip(SWITCHES, before, strict=True):
            switch.fp32_precision = value
