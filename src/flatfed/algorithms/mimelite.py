"""MimeLite with SGD's momentum (Karimireddy et al. 2021): clients apply the server's momentum without changing it.

    client: w <- w - eta [alpha g + (1 - alpha) s], s constant over the round
    server: w <- w + eta_g mean_S (w_i - w^t);   s <- alpha mean_S grad F_i(w^t) + (1 - alpha) s

grad F_i is the gradient on all of client i's images. alpha is FedSAM's beta, the weight of the fresh gradient (0.1,
section 5.1). FedSAM prints no pseudo-code: here weight decay is outside momentum and mix, and the full gradient has no
augmentation and no clip; decay inside both has the same stationary point.
"""

from __future__ import annotations

from flatfed.algorithms._context import Context, Tensor, Vectors
from flatfed.algorithms._parameters import Number
from flatfed.algorithms.fedavg import FedAvg


class MimeLite(FedAvg):
    alpha = Number(
        0.1, "weight of the fresh gradient, 1 minus the momentum; 1 is FedAvg", exclusive_minimum=0, maximum=1
    )
    server_state = ("momentum",)
    communication = (2, 2)
    full_passes = 1
    own_momentum = True
    whole_rows = True

    def correct(self, g: Tensor, w: Tensor, ctx: Context) -> Tensor:
        return g.mul_(self.alpha).add_(ctx.server["momentum"], alpha=1 - self.alpha)

    def finish(self, w: Tensor, ctx: Context) -> tuple[Vectors, Vectors]:
        return {}, {"gradient": ctx.scratch["full_gradient"]}

    def aggregate(self, server: Vectors, uploads: Vectors, ctx: Context) -> Vectors:
        momentum = server["momentum"].lerp(uploads["gradient"].mean(dim=0, keepdim=True), self.alpha)
        return {**super().aggregate(server, uploads, ctx), "momentum": momentum}
