"""FedGMT (Li et al. 2025): clients stay near the predictions of an average of the server's models.

    client: w <- w - eta grad [CE(f(w)) + gamma tau^2 KL(softmax(f(e) / tau) || softmax(f(w) / tau))] - eta h_i / beta
            h_i <- h_i + (w_i - w^t)
    server: w^{t+1} = mean_S w_i + (1/m) sum_{all i} h_i;   e <- alpha e + (1 - alpha) w^{t+1},   e^0 = w^0

h_i = -beta u_i of the paper's dual u_i. gamma = 0 is FedDyn without its quadratic. One gradient a step, and a forward
pass of e. The paper averages w_i + h_i over the active clients; the mean of all h_i is that of the official code and of
FedDyn.
"""

from __future__ import annotations

from flatfed.algorithms._context import Context, Tensor, Vectors
from flatfed.algorithms._parameters import Number
from flatfed.algorithms.feddyn import FedDyn


class FedGMT(FedDyn):
    version = 2
    regulariser = "paper"  # it has no quadratic
    average = Number(0.95, "alpha: share of e that each round keeps", minimum=0, maximum=1)
    distillation = Number(1.0, "gamma: weight of the divergence from the predictions of e", minimum=0)
    temperature = Number(3.0, "tau: divides the logits in the divergence", exclusive_minimum=0)
    server_state = ("lead",)  # e - w
    communication = (2, 1)
    forward_passes = 1
    whole_rows = True

    @property
    def proximal(self) -> float:
        return 0.0

    def start(self, w: Tensor, ctx: Context) -> Vectors:
        return {**super().start(w, ctx), "pull": self.penalty * ctx.client["h"]}

    def second_model(self, ctx: Context) -> Tensor:
        return ctx.received + ctx.server["lead"]

    def loss(self, logits: Tensor, labels: Tensor, second: Tensor) -> Tensor:
        tau, likelihood = self.temperature, logits.log_softmax(dim=1).gather(1, labels[:, None])[:, 0]
        ours, target = (logits / tau).log_softmax(dim=1), (second / tau).log_softmax(dim=1)
        divergence = (target.exp() * (target - ours)).sum(dim=1)
        return divergence * (self.distillation * tau**2) - likelihood

    def aggregate(self, server: Vectors, uploads: Vectors, ctx: Context) -> Vectors:
        changed = super().aggregate(server, uploads, ctx)
        lead = (server["w"] + server["lead"] - changed["w"]) * self.average
        return {**changed, "lead": lead}
