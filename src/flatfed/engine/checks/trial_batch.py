"""Whether an executor can run a model, found out before the first round on a batch of two images."""

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

    ``private`` coordinates of a client stand behind its row. A model that draws random numbers of its own is refused
    with every executor: rows and devices would not see the same ones.

    :raises ConfigError: naming executor, model and reason.
    """
    rows = executor.block or ROWS
    batch = blank_batch(executor.model, rows, IMAGES, shape, dtype, device)
    what = f"executor {executor.name} cannot run model {type(executor.model).__name__}"
    before = _drawn(device)
    try:
        executor(torch.zeros(rows, executor.layout.size + private, dtype=dtype, device=device), batch)
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        if is_shortage(error):
            raise
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        instead = "`executor: sequential`, in the protocol, asks less of a model"
        if executor.block == 1:
            instead = "No other executor asks less of a model"
        raise ConfigError(f"{what}: {reason}. {instead}") from error
    if not torch.equal(before, _drawn(device)):
        raise ConfigError(
            f"{what}: it draws random numbers from torch's own generator, which depend on what was drawn before; "
            "dropout goes by the masks that `forward` is given (see flatfed.models)"
        )


def _drawn(device: torch.device) -> torch.Tensor:
    """Return the state of torch's own generator."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
