"""FedLESAM (Fan et al. 2024, Alg. 1): local steps perturbed along the client's estimate of the global direction.

    e_i = rho (w_i^old - w^t) / ||w_i^old - w^t||;   w <- w - eta g(w + e_i);   after training w_i^old <- w^t

One gradient a step; rho = 0.01 (section 6.1). Alg. 1 omits the 1/n of the mean of local models. A client's first round
is not perturbed: ``first``.
"""

from __future__ import annotations

from flatfed.algorithms._lesam import LocallyEstimated
from flatfed.algorithms.fedavg import FedAvg


class FedLESAM(LocallyEstimated, FedAvg):
    whole_rows = True
