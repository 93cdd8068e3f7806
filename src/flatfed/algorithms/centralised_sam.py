"""SAM (Foret et al. 2021) on all data, without federation.

    e = rho g(w) / ||g(w)||;   w <- w - eta [clip(g(w + e)) + weight_decay w]

A round has as many steps as that of centralised SGD.
"""

from __future__ import annotations

from flatfed.algorithms._sam import SharpnessAware
from flatfed.algorithms.centralised_sgd import CentralisedSGD


class CentralisedSAM(SharpnessAware, CentralisedSGD):
    whole_rows = True
