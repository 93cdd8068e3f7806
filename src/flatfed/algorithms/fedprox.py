"""FedProx (Li et al. 2020): a proximal term keeps local models near the received one.

    w <- w - eta [g - mu w^t + mu w]

The clip contains the linear half -mu w^t; the quadratic one joins the weight decay, as in the official FedSMOO code.
Without an active clip this is g + mu (w - w^t). Not in the four papers' tables; mu = 0.1 is that code's default.
"""

from __future__ import annotations

from flatfed.algorithms._context import Context, Tensor
from flatfed.algorithms._parameters import Number
from flatfed.algorithms.fedavg import FedAvg


class FedProx(FedAvg):
    mu = Number(0.1, "strength of the proximal term; 0 is FedAvg", minimum=0)
    whole_rows = True

    @property
    def proximal(self) -> float:
        return self.mu

    def correct(self, g: Tensor, w: Tensor, ctx: Context) -> Tensor:
        return g.sub_(ctx.received, alpha=self.mu)
