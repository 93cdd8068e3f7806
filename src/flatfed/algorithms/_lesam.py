"""FedLESAM's perturbation (Fan et al. 2024, section 4.1), to be composed with any algorithm of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flatfed.algorithms._base import Algorithm
from flatfed.algorithms._parameters import Choice, Number
from flatfed.algorithms._rows import EPSILON, along
from flatfed.algorithms._shipped import heads, scalars

if TYPE_CHECKING:
    from torch import Tensor

    from flatfed.engine.context import Context, Gradient


SCALARS, HEADS = "FedLESAM@d6663cc", "FL-SAM@2c16149"


class LocallyEstimated(Algorithm):
    """The global perturbation, estimated by every client from the models it received: no gradient is spent on it.

        e_i = rho (w_i^old - w^t) / ||w_i^old - w^t||,  constant over the round; w_i^old: what i received last

    ``direction``: ``server_step`` is one direction for all clients, w^{t-1} - w^t, which section 4.1 rules out; the two
    agree under full participation. It is the vector that the official code sends. ``first``: before a client has taken
    part, Alg. 1's w_i^old = 0 makes e_i a pure shrinking of w^t; the default does not perturb then. (Nor does the
    official code in the first round; later it perturbs newcomers, too.)

    ``unpacking``: what public code, which perturbs along the server's step d, makes of it. FedLESAM@d6663cc indexes the
    flat vector by tensor: all of tensor k moves by the scalar rho d_k / sum_j |d_j|, j up to the number of tensors, so
    that ||e|| is some sixty times rho on a ResNet-18. FL-SAM@2c16149 (for FedLESAM-D; FedScar@d347eeb for all three)
    unpacks it without moving on: every tensor of n coordinates gets the first n, then all are scaled to rho.
    """

    rho = Number(0.01, "radius of the perturbation; 0 takes the plain gradient", minimum=0)
    direction = Choice(
        "paper",
        ("paper", "server_step"),
        "each client's own last model, or the server's last step",
        "section 4.1 rules out the extra download",
    )
    first = Choice(
        "unperturbed",
        ("unperturbed", "paper"),
        "first participation: no perturbation, or w_old = 0",
        "w_old = 0 would only shrink the model",
    )
    unpacking = Choice(
        "paper",
        ("paper", SCALARS, HEADS),
        "e_i by the tensors' own places, or as that code unpacks it",
        by_place=(SCALARS, HEADS),
    )
    server_state = ("step",)
    scratch = ("e",)
    remembers = True

    def __init__(self, **values: Any):
        super().__init__(**values)
        if self.direction == "server_step":  # the direction comes from the server: one vector more, none remembered
            self.remembers = False
            self.communication = (self.communication[0] + 1, self.communication[1])

    def start(self, w: Tensor, ctx: Context) -> None:
        """Fix e_i for the round."""
        super().start(w, ctx)
        if self.direction == "server_step":
            away = -ctx.server["step"]
        else:
            away = ctx.scratch["previous"] - ctx.received
            if self.first == "unperturbed":
                away *= ctx.scratch["previous"].any(dim=1, keepdim=True)
        ctx.scratch["e"].copy_(self._unpacked(away, ctx))

    def _unpacked(self, away: Tensor, ctx: Context) -> Tensor:
        """Return e_i of the vector w_i^old - w^t, in the order of the row."""
        if self.unpacking == SCALARS:
            numbers, total = scalars(away, ctx.layout)
            return numbers * (self.rho / (total + EPSILON))
        return along(heads(away, ctx.layout) if self.unpacking == HEADS else away, self.rho)

    def perturbation(self, w: Tensor, gradient: Gradient, ctx: Context) -> Tensor:
        """Return e_i."""
        return ctx.scratch["e"]

    def aggregate(self, server: dict[str, Tensor], uploads: dict[str, Tensor], ctx: Context) -> None:
        """Keep w^{t+1} - w^t, the server's step."""
        received = server["w"].clone()
        super().aggregate(server, uploads, ctx)
        server["step"].copy_(server["w"] - received)
