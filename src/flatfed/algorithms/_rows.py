"""Operations on rows (rows, parameters) that several algorithms share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

EPSILON = 1e-7  # of the official FedSMOO code's perturbation; makes rho = 0 and a zero gradient safe
BLOCK = 1 << 18  # columns mixed at a time


def along(rows: Tensor, length: float) -> Tensor:
    """Return along every row the vector of Euclidean norm ``length`` over all parameters: length v / (||v|| + 1e-7).

    In float32 on a CPU torch sums a norm of millions of coordinates to one part in some thousands.
    """
    # The length goes into the divisor, which saves a pass over the rows; 0 makes it infinite, and the result 0.
    return rows / ((rows.norm(dim=1, keepdim=True) + EPSILON) / length)


def unit(rows: Tensor) -> Tensor:
    """Return v / ||v|| of every row, 0 for 0: what torch gives as the gradient of ||v||."""
    norms = rows.norm(dim=1, keepdim=True)
    return rows / norms.masked_fill(norms == 0, 1)


def mean_step(uploads: Tensor, received: Tensor, steps: Tensor) -> Tensor:
    """Return (1/n) sum_i (w_i - w^t) / K_i, shape (1, parameters), without a second (n, parameters) matrix.

    ``uploads`` (n, parameters) local models, ``received`` (1, parameters) w^t, ``steps`` (n, 1) true step counts.
    """
    weights = steps.reciprocal().T / len(uploads)
    return weights @ uploads - weights.sum() * received


def gossip(models: Tensor, mixing: Tensor) -> None:
    """Move ``models`` X (clients, parameters) in place to W X, W = ``mixing`` (clients, clients).

    Columns are mixed in blocks, so that no second copy of all clients' models is needed.
    """
    for columns in models.split(BLOCK, dim=1):
        columns.copy_(mixing @ columns)
