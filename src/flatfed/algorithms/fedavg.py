"""FedAvg (McMahan et al. 2017): K local SGD steps, then the mean of the local models.

Server: w^{t+1} = w^t + eta_g (1/n) sum_{i in S_t} (w_i - w^t). The mean is unweighted, as in FedLESAM's section 2.3 and
the official codes of FedSMOO and FedLESAM. Weights would only matter on FedLESAM's domain datasets, whose domains
differ in size.
"""

from __future__ import annotations

from flatfed.algorithms._base import Algorithm
from flatfed.algorithms._context import Context, Vectors
from flatfed.algorithms._parameters import Number


class FedAvg(Algorithm):
    server_learning_rate = Number(1.0, "eta_g: share of the mean update that the server takes", exclusive_minimum=0)
    whole_rows = True

    def aggregate(self, server: Vectors, uploads: Vectors, ctx: Context) -> Vectors:
        return {"w": server["w"].lerp(uploads["w"].mean(dim=0, keepdim=True), self.server_learning_rate)}
