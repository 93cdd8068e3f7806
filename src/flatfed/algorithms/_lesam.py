"""FedLESAM's perturbation (Fan et al. 2024, section 4.1), for any algorithm with a server."""

from __future__ import annotations

from typing import Any

from flatfed.algorithms._base import Algorithm
from flatfed.algorithms._context import Context, Gradient, Tensor, Vectors
from flatfed.algorithms._parameters import Choice, Number
from flatfed.algorithms._rows import along


class LocallyEstimated(Algorithm):
    """Each client estimates the global perturbation from its received models, without further gradients.

        e_i = rho (w_i^old - w^t) / ||w_i^old - w^t||,  constant over the round; w_i^old: the last received model

    ``direction: server_step``: one direction for all clients, w^{t-1} - w^t, as in the official code; section 4.1
    excludes it. ``first: paper``: Alg. 1's w_i^old = 0, which only shrinks the model; by default a client's first round
    is not perturbed. (The official code skips only the first round of all.)
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
        ("paper", "FedLESAM@d6663cc", "FL-SAM@2c16149"),
        "e_i by each tensor's own coordinates, or as that code unpacks it",
    )
    server_state = ("step",)
    scratch = ("e",)
    remembers = True

    def __init__(self, **values: Any):
        super().__init__(**values)
        if self.direction == "server_step":  # the server sends one more vector, clients remember none
            self.remembers = False
            self.communication = (self.communication[0] + 1, self.communication[1])

    def start(self, w: Tensor, ctx: Context) -> Vectors:
        if self.direction == "server_step":
            direction = -ctx.server["step"]
        else:
            direction = ctx.scratch["previous"] - ctx.received
            if self.first == "unperturbed":
                direction *= ctx.scratch["previous"].any(dim=1, keepdim=True)
        return {**super().start(w, ctx), "e": self.scaled(direction, ctx).expand_as(w)}

    def scaled(self, direction: Tensor, ctx: Context) -> Tensor:
        """Return e (rows, parameters) along ``direction``."""
        return along(direction, self.rho)

    def perturbation(self, w: Tensor, gradient: Gradient, ctx: Context) -> Tensor:
        return ctx.scratch["e"]

    def aggregate(self, server: Vectors, uploads: Vectors, ctx: Context) -> Vectors:
        changed = super().aggregate(server, uploads, ctx)
        return {**changed, "step": changed["w"] - server["w"]}
