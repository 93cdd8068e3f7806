"""A trial batch of two images."""

from __future__ import annotations

import random

import numpy as np
import torch

from flatfed.engine.executors import Executor
from flatfed.engine.feed import blank_batch
from flatfed.engine.memory.shortage import is_shortage
from flatfed.errors import ConfigError

ROWS, IMAGES = 2, 2


def check(
    executor: Executor, shape: tuple[int, int, int], private: int, dtype: torch.dtype, device: torch.device
) -> None:
    """Refuse an ``executor`` that cannot compute its model's gradients on images of ``shape`` (C, H, W).

    A model that draws random numbers is refused: rows and devices would draw different ones. ``private``: number of
    private coordinates.

    :raises ConfigError: naming executor, model and reason.
    """
    rows = executor.block or ROWS
    batch = blank_batch(executor.model, rows, IMAGES, shape, dtype, device)
    refusal = f"executor {executor.name} cannot run model {type(executor.model).__name__}"
    before = random_states(device)
    try:
        executor(torch.zeros(rows, executor.layout.size + private, dtype=dtype, device=device), batch)
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        if is_shortage(error):
            raise
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        supporter = "`executor: sequential`, in the protocol," if executor.block != 1 else "No other executor"
        raise ConfigError(f"{refusal}: {reason}. {supporter} supports more models") from error
    if generator := changed(before, device):
        raise ConfigError(
            f"{refusal}: it draws random numbers from {generator}, whose values depend on earlier draws; "
            "dropout must use the masks that `forward` receives (see flatfed.models)"
        )


def random_states(device: torch.device) -> dict[str, object]:
    """Return name -> state of the process's random generators."""
    _, key, position, *_ = np.random.get_state()
    states = {"torch's generator": bytes(torch.get_rng_state().numpy()), "NumPy's generator": (bytes(key), position)}
    if device.type == "cuda":
        states["torch's generator of the GPU"] = bytes(torch.cuda.get_rng_state(device).numpy())
    return states | {"Python's generator": random.getstate()}


def changed(before: dict[str, object], device: torch.device) -> str | None:
    """Return the name of a generator that drew numbers since ``before``, None if none did."""
    return next((name for name, state in random_states(device).items() if state != before[name]), None)
