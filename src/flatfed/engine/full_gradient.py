"""The gradient on all images of a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flatfed.engine.executors import Batch

if TYPE_CHECKING:
    from flatfed.engine.simulation import Simulation


def full_gradient(run: Simulation, w: Tensor, members: list[Tensor]) -> Tensor:
    """Return the gradients (rows, parameters) of the mean loss on the images ``members``, (n_i,) per row.

    Without augmentation and dropout.
    """
    data, gradients = run.data, torch.zeros_like(w)
    for row, images in enumerate(members):
        for part in images.split(run.evaluate.batch_size):
            run.pause()
            weights = torch.full((1, len(part)), 1 / len(images), dtype=data.dtype, device=w.device)
            batch = Batch(data.batch(part)[None], data.labels[part][None], weights, [])
            gradients[row] += run.executor(w[row : row + 1], batch)[1][0]
    return gradients
