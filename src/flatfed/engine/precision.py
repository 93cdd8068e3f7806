"""Where products of matrices may not be rounded to TF32: averages of models, which would lose half of their digits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def full_precision() -> Iterator[None]:
    """Compute matrix products of float32 in float32 on a GPU, too; training goes on with TF32, as the official code."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
