"""Transfers from the host to a GPU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def to_device(values: np.ndarray | Tensor, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Return ``values`` of the host on ``device``, in ``dtype`` if given.

    Page-locked memory lets the copy to a GPU start without waiting for queued work; torch keeps that memory until then.
    """
    tensor = torch.as_tensor(values)
    if dtype is not None:
        tensor = tensor.to(dtype)  # before pinning: a conversion allocates memory that is not page-locked
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
