"""The gradient on all images of a client, which some algorithms and measurements ask for once a round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flatfed.engine.executors import Batch

if TYPE_CHECKING:
    from flatfed.engine.simulation import Simulation


def full_gradient(run: Simulation, w: Tensor, members: list[Tensor]) -> Tensor:
    """Return the gradients (rows, parameters) of the mean loss on the images ``members``, one tensor (n_i,) a row.

    Unaugmented, without dropout, as many images at a time as are evaluated at a time.
    """
    data, gradients = run.data, torch.zeros_like(w)
    for row, own in enumerate(members):
        for part in own.split(run.evaluate.batch_size):
            run.pause()
            weights = torch.full((1, len(part)), 1 / len(own), dtype=data.dtype, device=w.device)
            batch = Batch(data.batch(part)[None], data.labels[part][None], weights, [])
            gradients[row] += run.executor(w[row : row + 1], batch)[1][0]
    return gradients
