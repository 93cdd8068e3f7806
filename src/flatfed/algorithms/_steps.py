"""The number of local steps K."""

from __future__ import annotations

from flatfed.algorithms._base import Algorithm
from flatfed.algorithms._context import Context, Tensor
from flatfed.algorithms._parameters import Choice


class DividesBySteps(Algorithm):
    """K is the true number of local steps, E ceil(n_i / B), so (w^t - w_i) / (K eta) is the mean direction of a step.

    The official codes of FedSMOO and FedLESAM use E n_0 / B for all clients, which differs if B does not divide n_i or
    if clients have different numbers of images.
    """

    steps = Choice(
        "paper",
        ("paper", "official_code"),
        "K: each client's number of local steps (paper), or epochs x images of the first client / batch size for all "
        "clients (official_code)",
        "then the directions are means over local steps",
    )

    def step_count(self, ctx: Context) -> Tensor:
        """Return K, shape (rows, 1)."""
        return ctx.steps if self.steps == "paper" else ctx.nominal_steps
