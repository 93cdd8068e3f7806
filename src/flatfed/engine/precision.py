"""Formats of numbers, by the name that a run's ``precision`` gives them.

Weights, all state, sums, norms and evaluation are float32 or float64. With ``bfloat16`` they are float32, and a model
computes a training step in bfloat16, from its weights, cast once, to its outputs, of which the loss is float32 again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

STATE = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.float32}
ANALYSED = ("float32", "float64")  # what Hessians may be computed in


def layers(precision: str) -> torch.dtype | None:
    """Return the format that a model's layers compute a training step in, None where it is that of its weights."""
    return torch.bfloat16 if precision == "bfloat16" else None


@contextmanager
def full_precision() -> Iterator[None]:
    """Compute matrix products of float32 in float32 on a GPU, too; training goes on with TF32, as the official code.

    Averages of models are such products, and would lose half of their digits.
    """
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
