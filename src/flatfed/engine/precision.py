"""The number formats of a run's ``precision``.

Weights, state, sums, norms and evaluation are float32 or float64. With ``bfloat16`` they are float32; a training step
casts the weights and computes the layers in bfloat16, the loss in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

STATE_DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.float32}
SWITCHES = (torch.backends.cuda.matmul, torch.backends.cudnn.conv)  # for float32 products on a GPU


@contextmanager
def full_precision() -> Iterator[None]:
    """Compute float32 products in full precision: TF32 would lose half the digits of averages and Hessian products."""
    before = [switch.fp32_precision for switch in SWITCHES]
    for switch in SWITCHES:
        switch.fp32_precision = "ieee"
    try:
        yield
    finally:
        for switch, value in zip(SWITCHES, before, strict=True):
            switch.fp32_precision = value
