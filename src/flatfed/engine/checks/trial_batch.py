"""A trial batch of two images."""

from __future__ import annotations

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
    before = _random_state(device)
    try:
        executor(torch.zeros(rows, executor.layout.size + private, dtype=dtype, device=device), batch)
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        if is_shortage(error):
            raise
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        supporter = "`executor: sequential`, in the protocol," if executor.block != 1 else "No other executor"
        raise ConfigError(f"{refusal}: {reason}. {supporter} supports more models") from error
    if not torch.equal(before, _random_state(device)):
        raise ConfigError(
            f"{refusal}: it draws random numbers from torch's generator, whose values depend on earlier draws; "
            "dropout must use the masks that `forward` receives (see flatfed.models)"
        )


def _random_state(device: torch.device) -> torch.Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
