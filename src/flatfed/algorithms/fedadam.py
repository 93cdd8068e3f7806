"""FedAdam (Reddi et al. 2021, Alg. 2): FedAvg's clients, Adam on the mean update at the server.

    m <- beta1 m + (1 - beta1) Dbar;  v <- beta2 v + (1 - beta2) Dbar^2;  w <- w + eta_g m / (sqrt(v) + tau)

Dbar = mean_S (w_i - w^t). No bias correction, v^0 = 0 and tau = 0.01 as in the official FedSMOO code; Reddi et al.
require v^{-1} >= tau^2. eta_g = 0.1 (FedSMOO section 5.1).
"""

from __future__ import annotations

from flatfed.algorithms._base import Algorithm
from flatfed.algorithms._context import Context, Vectors
from flatfed.algorithms._parameters import Number


class FedAdam(Algorithm):
    server_learning_rate = Number(0.1, "eta_g: step of the server's Adam", exclusive_minimum=0)
    beta1 = Number(0.9, "decay of the first moment", minimum=0, exclusive_maximum=1)
    beta2 = Number(0.99, "decay of the second moment", minimum=0, exclusive_maximum=1)
    tau = Number(0.01, "added to the root of the second moment: the degree of adaptivity", exclusive_minimum=0)
    server_state = ("m", "v")

    def aggregate(self, server: Vectors, uploads: Vectors, ctx: Context) -> Vectors:
        step = uploads["w"].mean(dim=0, keepdim=True) - server["w"]
        m = server["m"].lerp(step, 1 - self.beta1)
        v = server["v"].lerp(step.square(), 1 - self.beta2)
        return {"w": server["w"].add(m / (v.sqrt() + self.tau), alpha=self.server_learning_rate), "m": m, "v": v}
