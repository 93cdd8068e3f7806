"""From the host to a GPU, without waiting for it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def sent(values: np.ndarray | Tensor, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Return ``values``, which lie on the host, on ``device`` and in ``dtype`` (None: as they are).

    To a GPU by way of page-locked memory: from any other a copy waits until all that was asked of the GPU is done. Its
    lines are ordered after what the current stream has to do, and torch keeps the page-locked memory until then.
    """
    tensor = torch.as_tensor(values)
    if dtype is not None:
        tensor = tensor.to(dtype)  # here, not on the way, where a conversion makes memory that is not page-locked
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
