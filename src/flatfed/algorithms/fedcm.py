"""FedCM (Xu et al. 2021): every local step mixes the gradient with the last global direction.

    client: w <- w - eta [alpha g + (1 - alpha) Delta]
    server: w <- w + eta_g mean_S (w_i - w^t);   Delta <- - mean_S (w_i - w^t) / (K eta)

eta is the learning rate of the round of the update; Delta = 0 in the first round. ``scaling: paper`` is w <- w - eta_g
Delta with the new Delta, which is averaging only if eta_g = eta K; the default averages, as the official code. Weight
decay is outside the mix and returns through Delta, as in the official FedSMOO code: the effective decay is 1/alpha
times larger.
"""

from __future__ import annotations

from flatfed.algorithms._context import Context, Tensor, Vectors
from flatfed.algorithms._parameters import Choice, Number
from flatfed.algorithms._rows import mean_step
from flatfed.algorithms._steps import DividesBySteps
from flatfed.algorithms.fedavg import FedAvg


class FedCM(DividesBySteps, FedAvg):
    alpha = Number(0.1, "weight of the fresh gradient; 1 is FedAvg", exclusive_minimum=0, maximum=1)
    scaling = Choice(
        "official_code",
        ("official_code", "paper"),
        "the server averages, or steps along the new Delta",
        "the papers' step equals averaging only where eta_g = eta K",
    )
    server_state = ("direction",)
    communication = (2, 1)
    own_momentum = True
    whole_rows = True

    def correct(self, g: Tensor, w: Tensor, ctx: Context) -> Tensor:
        return g.mul_(self.alpha).add_(ctx.server["direction"], alpha=1 - self.alpha)

    def aggregate(self, server: Vectors, uploads: Vectors, ctx: Context) -> Vectors:
        direction = mean_step(uploads["w"], server["w"], self.step_count(ctx)).div_(-ctx.lr)
        if self.scaling == "paper":
            return {"w": server["w"].sub(direction, alpha=self.server_learning_rate), "direction": direction}
        return {**super().aggregate(server, uploads, ctx), "direction": direction}
