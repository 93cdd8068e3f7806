"""FedCM (Xu et al. 2021): every local step mixes the gradient with the last global direction.

    client: w <- w - eta [alpha g + (1 - alpha) Delta]
    server: w <- w + eta_g mean_S (w_i - w^t);   Delta <- - mean_S (w_i - w^t) / (K eta)

eta is the learning rate of the round that produced the update. Delta = 0 in the first round. Weight decay stays outside
the mix and returns through Delta, as in the official FedSMOO code, so that the effective decay is 1/alpha times larger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flatfed.algorithms._parameters import Number
from flatfed.algorithms._rows import mean_step
from flatfed.algorithms.fedavg import FedAvg

if TYPE_CHECKING:
    from torch import Tensor

    from flatfed.engine.context import Context


class FedCM(FedAvg):
    """Local SGD with client-level momentum."""

    alpha = Number(0.1, "weight of the fresh gradient; 1 is FedAvg", exclusive_minimum=0, maximum=1)
    server_state = ("direction",)
    communication = (2, 1)

    def correct(self, g: Tensor, ctx: Context) -> Tensor:
        """G = alpha g + (1 - alpha) Delta."""
        return g.mul_(self.alpha).add_(ctx.server["direction"], alpha=1 - self.alpha)

    def aggregate(self, server: dict[str, Tensor], uploads: dict[str, Tensor], ctx: Context) -> None:
        """Average the models; Delta is the mean direction of one local step."""
        server["direction"].copy_(mean_step(uploads["w"], server["w"], ctx.steps).div_(-ctx.lr))
        super().aggregate(server, uploads, ctx)
