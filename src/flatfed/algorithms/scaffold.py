"""SCAFFOLD (Karimireddy et al. 2020, option II): control variates c (server) and c_i (clients) correct client drift.

    client: w <- w - eta (g - c_i + c);   c_i^+ = c_i - c + (w^t - w_i) / (K eta)
    server: w <- w + eta_g mean_S (w_i - w^t);   c <- c + (1/m) sum_S (c_i^+ - c_i)

eta is the learning rate of the round and K the true number of local steps (``steps: paper``), so c_i estimates the
client's mean direction. FedLESAM's Alg. 2 prints the correction with the wrong sign and adds c_i^+ itself to c; FlatFed
does neither.
"""

from __future__ import annotations

from flatfed.algorithms._context import Context, Tensor, Vectors
from flatfed.algorithms._steps import DividesBySteps
from flatfed.algorithms.fedavg import FedAvg


class Scaffold(DividesBySteps, FedAvg):
    client_state = ("c",)
    server_state = ("c",)
    scratch = ("correction",)
    communication = (2, 2)
    whole_rows = True

    def start(self, w: Tensor, ctx: Context) -> Vectors:
        return {**super().start(w, ctx), "correction": ctx.server["c"] - ctx.client["c"]}

    def correct(self, g: Tensor, w: Tensor, ctx: Context) -> Tensor:
        return g.add_(ctx.scratch["correction"])

    def finish(self, w: Tensor, ctx: Context) -> tuple[Vectors, Vectors]:
        """Upload c_i^+ - c_i."""
        delta = (ctx.received - w) / (self.step_count(ctx) * ctx.lr) - ctx.server["c"]
        return {"c": ctx.client["c"].add_(delta)}, {"delta": delta}

    def aggregate(self, server: Vectors, uploads: Vectors, ctx: Context) -> Vectors:
        c = server["c"].add(uploads["delta"].sum(dim=0, keepdim=True), alpha=1 / ctx.client_count)
        return {**super().aggregate(server, uploads, ctx), "c": c}
