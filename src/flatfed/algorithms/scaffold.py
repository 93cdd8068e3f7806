"""SCAFFOLD (Karimireddy et al. 2020, option II): control variates c (server) and c_i (clients) correct client drift.

    client: w <- w - eta (g - c_i + c);   c_i^+ = c_i - c + (w^t - w_i) / (K eta)
    server: w <- w + eta_g mean_S (w_i - w^t);   c <- c + (1/m) sum_S (c_i^+ - c_i)

K is the true number of local steps, E ceil(n_i / B), and eta the learning rate of the round, so that c_i estimates
the client's mean direction; the official FedSMOO code takes E n_i / B, which differs where B does not divide n_i.
FedLESAM's Alg. 2 prints the correction with the wrong sign and adds c_i^+ itself to c; neither is followed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flatfed.algorithms.fedavg import FedAvg

if TYPE_CHECKING:
    from torch import Tensor

    from flatfed.engine.context import Context


class Scaffold(FedAvg):
    """Local SGD with control variates."""

    client_state = ("c",)
    server_state = ("c",)
    scratch = ("correction",)
    communication = (2, 2)

    def start(self, w: Tensor, ctx: Context) -> None:
        """The correction c - c_i is constant over the round."""
        ctx.scratch["correction"].copy_(ctx.server["c"] - ctx.client["c"])

    def correct(self, g: Tensor, ctx: Context) -> Tensor:
        """G = g + c - c_i."""
        return g.add_(ctx.scratch["correction"])

    def finish(self, w: Tensor, ctx: Context) -> dict[str, Tensor]:
        """c_i <- c_i + delta with delta = -c + (w^t - w_i) / (K eta); delta is uploaded."""
        delta = (ctx.w - w) / (ctx.steps * ctx.lr) - ctx.server["c"]
        ctx.client["c"].add_(delta)
        return {"delta": delta}

    def aggregate(self, server: dict[str, Tensor], uploads: dict[str, Tensor], ctx: Context) -> None:
        """Average the models; c stays the mean of all clients' c_i."""
        super().aggregate(server, uploads, ctx)
        server["c"].add_(uploads["delta"].sum(dim=0, keepdim=True), alpha=1 / ctx.clients)
