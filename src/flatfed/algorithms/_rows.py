"""Operations on rows (rows, parameters)."""

from __future__ import annotations

from flatfed.algorithms._context import Tensor

EPSILON = 1e-7  # as in the official FedSMOO code; allows rho = 0 and a zero gradient
BLOCK = 1 << 18  # columns mixed at a time


def along(rows: Tensor, length: float) -> Tensor:
    """Return each row scaled to the Euclidean norm ``length``: length v / (||v|| + 1e-7).

    In float32 on a CPU, torch's norm of millions of coordinates has a relative error of some 1e-4.
    """
    # Dividing by (norm / length) saves a pass over the rows; length 0 divides by infinity and gives 0.
    return rows / ((rows.norm(dim=1, keepdim=True) + EPSILON) / length)


def unit(rows: Tensor) -> Tensor:
    """Return v / ||v|| of every row, 0 for 0, as torch's gradient of ||v||."""
    norms = rows.norm(dim=1, keepdim=True)
    return rows / norms.masked_fill(norms == 0, 1)


def mean_step(uploads: Tensor, received: Tensor, steps: Tensor) -> Tensor:
    """Return (1/n) sum_i (w_i - w^t) / K_i, shape (1, parameters), without a second (n, parameters) matrix.

    ``uploads`` (n, parameters): w_i; ``received`` (1, parameters): w^t; ``steps`` (n, 1): K_i.
    """
    weights = steps.reciprocal().T / len(uploads)
    return weights @ uploads - weights.sum() * received


def gossip(models: Tensor, mixing: Tensor) -> Tensor:
    """Return W X of ``models`` X (clients, parameters), W = ``mixing``; in place and in blocks, to save memory."""
    for columns in models.split(BLOCK, dim=1):
        columns.copy_(mixing @ columns)
    return models
