"""MoFedSAM (Qu et al. 2022, Alg. 2): FedCM's client momentum on SAM's gradient.

    e = rho g(w) / ||g(w)||;   w <- w - eta [alpha g(w + e) + (1 - alpha) Delta]

alpha is Qu et al.'s beta: the weight of the fresh gradient. The server averages, as FedCM; Alg. 2's w <- w - eta_g
Delta equals that only if eta K = 1, and appendix D.1 prints Delta with the opposite sign.
"""

from __future__ import annotations

from flatfed.algorithms._parameters import Choice
from flatfed.algorithms._sam import SharpnessAware
from flatfed.algorithms.fedcm import FedCM


class MoFedSAM(SharpnessAware, FedCM):
    fresh = Choice("paper", ("paper", "FedLESAM@d6663cc"), "weight of the fresh gradient: alpha, or 1")
    whole_rows = True
