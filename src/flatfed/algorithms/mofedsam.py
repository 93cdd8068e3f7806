"""MoFedSAM (Qu et al. 2022, Alg. 2): FedCM's client momentum on SAM's gradient.

    e = rho g(w) / ||g(w)||;   w <- w - eta [alpha g(w + e) + (1 - alpha) Delta]

alpha is Qu et al.'s beta: the weight of the fresh gradient. The server averages, as FedCM; Alg. 2's
w <- w - eta_g Delta equals that only where eta K = 1, and appendix D.1 prints Delta with the opposite sign.
"""

from __future__ import annotations

from flatfed.algorithms._claims import Claims, Reduction
from flatfed.algorithms._sam import SharpnessAware
from flatfed.algorithms.fedcm import FedCM


class MoFedSAM(SharpnessAware, FedCM):
    """FedCM on SAM's gradient."""

    whole_rows = True
    claims = Claims(
        (
            Reduction({"rho": 0.0, "alpha": 0.3}, "fedcm", {"alpha": 0.3}),
            Reduction({"alpha": 1.0, "rho": 0.3}, "fedsam", {"rho": 0.3}),
        ),
        ends_at="fixed point",
        per_rho=4.0,
    )
