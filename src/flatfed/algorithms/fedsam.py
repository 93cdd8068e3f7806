"""FedSAM (Qu et al. 2022, Alg. 1; Caldarola et al. 2022): local SAM steps, then averaging.

    e = rho g(w) / ||g(w)||;   w <- w - eta g(w + e)

Both gradients use the same batch and dropout masks. Qu et al.'s eq. 3 has a wrong sign factor; eq. 4 is used. Default
rho of FedSMOO and FedLESAM (0.01); Qu et al. use 0.5.
"""

from __future__ import annotations

from flatfed.algorithms._sam import SharpnessAware
from flatfed.algorithms.fedavg import FedAvg


class FedSAM(SharpnessAware, FedAvg):
    whole_rows = True
