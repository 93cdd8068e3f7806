"""The number of local steps that an algorithm divides by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flatfed.algorithms._base import Algorithm
from flatfed.algorithms._parameters import Choice

if TYPE_CHECKING:
    from torch import Tensor

    from flatfed.engine.context import Context


class DividesBySteps(Algorithm):
    """K is the true number of local steps, E ceil(n_i / B): then w^t - w_i over K eta is the mean direction of a step.

    The official FedSMOO code, and FedLESAM's after it, takes E n_0 / B for all clients, n_0 the images of the first.
    That differs where B does not divide n_i (25 for 26 steps on CIFAR-100 with 200 clients), and where clients have
    different numbers of images.
    """

    steps = Choice(
        "paper",
        ("paper", "official_code"),
        "K: the true number of local steps, or, as in the official code, epochs times the first client's images over "
        "the batch size, for every client",
        "then c_i and Delta are mean directions of a step, whatever the batch size",
    )

    def step_count(self, ctx: Context) -> Tensor:
        """Return K, shape (rows, 1)."""
        return ctx.steps if self.steps == "paper" else ctx.nominal_steps
