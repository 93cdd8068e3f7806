"""The number formats of a run's ``precision``.

Weights, state, sums, norms and evaluation are float32 or float64. With ``bfloat16`` they are float32; a training step
casts the weights and computes the layers in bfloat16, the loss in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from flatfed.errors import FlatFedError
from flatfed.runs import host
from flatfed.runs.run_config import RunConfig

STATE_DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.float32}
SWITCHES = (torch.backends.cuda.matmul, torch.backends.cudnn.conv)  # for float32 products on a GPU


def bfloat16_units(config: RunConfig, device: torch.device) -> list[str] | None:
    """Return the hardware for bfloat16, on a CPU its instruction sets; None for a run in another precision.

    :raises FlatFedError: a CPU without (known) units, unless the run sets ``emulate_bfloat16``.
    """
    if config.precision != "bfloat16":
        return None
    if device.type != "cpu":
        return ["a GPU"]
    units = [name for name in host.BFLOAT16 if name in host.instructions()]
    if units or config.emulate_bfloat16:
        return units
    reason = "has no units for it" if host.instructions() else "does not report whether it has units for it"
    raise FlatFedError(
        f"precision: bfloat16: {host.processor()} {reason} ({', '.join(host.BFLOAT16)}) and would emulate it slowly. "
        "Train in float32, or on another CPU or a GPU; `emulate_bfloat16: true` in the protocol trains here anyway"
    )


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
