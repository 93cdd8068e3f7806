"""The dataset on the device, normalised and augmented in batches, and transfers from the host to a GPU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from flatfed.data import augment
from flatfed.data.dataset import Dataset
from flatfed.engine.batches import RoundPlan
from flatfed.runs.run_config import DatasetSettings


class Resident:
    """``images`` (N, C, H, W) uint8 and ``labels`` (N,) of ``data`` on ``device``.

    ``mean`` and ``std`` are those of the run's ``settings``; ``scheme`` of augmentation.
    """

    def __init__(
        self, data: Dataset, settings: DatasetSettings, scheme: str, device: torch.device, dtype: torch.dtype
    ):
        self.images, self.labels = placed(data.images, device), torch.from_numpy(np.asarray(data.labels)).to(device)
        self.mean, self.std = (
            torch.tensor(numbers, dtype=dtype, device=device) for numbers in (settings.mean, settings.std)
        )
        self.scheme, self.device, self.dtype = scheme, self.labels.device, dtype  # "cuda:0" where ``device`` is "cuda"

    def batch(self, index: Tensor, draws: Tensor | None = None) -> Tensor:
        """Return normalised images (*index.shape, C, H, W), augmented if ``draws`` are given."""
        scheme = self.scheme if draws is not None else "none"
        images = self.images[index.to(self.images.device)]
        if images.device != self.device:
            images = to_device(images, self.device)
        return augment.batch(images, self.mean, self.std, draws, scheme, self.dtype)

    def inputs(self, plan: RoundPlan) -> dict[str, Tensor]:
        """Return name -> tensor (rows, K, ...) of a round: index, labels, weight and, if present, draws and keys.

        The index is on the device of the images.
        """
        index = to_device(plan.index, self.device)
        optional = {name: getattr(plan, name) for name in ("draws", "keys")}
        return {
            "index": index if self.images.device.type == self.device.type else torch.from_numpy(plan.index),
            "labels": self.labels[index],
            "weight": to_device(plan.weight, self.device, self.dtype),
            **{name: to_device(values, self.device) for name, values in optional.items() if values is not None},
        }


def placed(images: np.ndarray, device: torch.device) -> Tensor:
    """Return ``images`` on ``device``, or memory-mapped on the host if they need over half of a GPU's free memory."""
    mapped = torch.from_numpy(np.asarray(images))
    if device.type == "cuda" and images.nbytes > torch.cuda.mem_get_info(device)[0] // 2:
        return mapped
    return mapped.to(device)


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
