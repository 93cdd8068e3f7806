"""The dataset on the device, normalised and augmented in batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from flatfed.data import augment
from flatfed.data.dataset import Dataset
from flatfed.engine.transfer import to_device
from flatfed.runs.run_config import DatasetSettings


@dataclass
class Resident:
    """``images`` (N, C, H, W) uint8 and ``labels`` (N,)."""

    images: Tensor
    labels: Tensor
    mean: Tensor
    std: Tensor
    dtype: torch.dtype
    scheme: str

    @classmethod
    def of(
        cls, data: Dataset, settings: DatasetSettings, scheme: str, device: torch.device, dtype: torch.dtype
    ) -> Resident:
        """Return ``data`` on ``device``, with ``mean`` and ``std`` from the run's ``settings``."""
        mean, std = (torch.tensor(numbers, dtype=dtype, device=device) for numbers in (settings.mean, settings.std))
        labels = torch.from_numpy(np.asarray(data.labels)).to(device)
        return cls(placed(data.images, device), labels, mean, std, dtype, scheme)

    def batch(self, index: Tensor, draws: Tensor | None = None) -> Tensor:
        """Return normalised images (*index.shape, C, H, W), augmented if ``draws`` are given."""
        scheme = self.scheme if draws is not None else "none"
        images = self.images[index.to(self.images.device)]
        if images.device != self.mean.device:
            images = to_device(images, self.mean.device)
        return augment.batch(images, self.mean, self.std, draws, scheme, self.dtype)


def placed(images: np.ndarray, device: torch.device) -> Tensor:
    """Return ``images`` on ``device``, or memory-mapped on the host if they need over half of a GPU's free memory."""
    mapped = torch.from_numpy(np.asarray(images))
    if device.type == "cuda" and images.nbytes > torch.cuda.mem_get_info(device)[0] // 2:
        return mapped
    return mapped.to(device)
