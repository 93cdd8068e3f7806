"""The gradient on all images of a client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from flatfed.engine.executors import Batch, Executor
from flatfed.engine.resident import Resident


@dataclass
class FullGradient:
    """Computes gradients in batches of ``batch_size`` images; ``pause`` is called before each and may raise."""

    executor: Executor
    data: Resident
    batch_size: int
    pause: Callable[[], None]

    def __call__(self, w: Tensor, members: list[Tensor]) -> Tensor:
        """Return the gradients (rows, parameters) of the mean loss on the images ``members``, (n_i,) per row.

        Without augmentation and dropout.
        """
        data, gradients = self.data, torch.zeros_like(w)
        for row, images in enumerate(members):
            for part in images.split(self.batch_size):
                self.pause()
                weights = torch.full((1, len(part)), 1 / len(images), dtype=data.dtype, device=w.device)
                batch = Batch(data.batch(part)[None], data.labels[part][None], weights, [])
                gradients[row] += self.executor(w[row : row + 1], batch)[1][0]
        return gradients
