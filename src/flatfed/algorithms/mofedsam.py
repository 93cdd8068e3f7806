"""MoFedSAM (Qu et al. 2022, Alg. 2): FedCM's client momentum on SAM's gradient.

    e = rho g(w) / ||g(w)||;   w <- w - eta [alpha g(w + e) + (1 - alpha) Delta]

alpha is Qu et al.'s beta: the weight of the fresh gradient. The server averages, as FedCM; Alg. 2's w <- w - eta_g
Delta equals that only if eta K = 1, and appendix D.1 prints Delta with the opposite sign. FedLESAM@d6663cc ignores
alpha for the gradient, g(w + e) + (1 - alpha) Delta: ``fresh``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flatfed.algorithms._claims import Claims, Reduction
from flatfed.algorithms._parameters import Choice
from flatfed.algorithms._sam import SharpnessAware
from flatfed.algorithms.fedcm import FedCM

if TYPE_CHECKING:
    from torch import Tensor

    from flatfed.engine.context import Context

UNWEIGHTED = "FedLESAM@d6663cc"


class MoFedSAM(SharpnessAware, FedCM):
    fresh = Choice("paper", ("paper", UNWEIGHTED), "weight of the fresh gradient: alpha, or 1")
    whole_rows = True
    claims = Claims(
        (
            Reduction({"rho": 0.0, "alpha": 0.3}, "fedcm", {"alpha": 0.3}),
            Reduction({"alpha": 1.0, "rho": 0.3}, "fedsam", {"rho": 0.3}),
        ),
        ends_at="fixed point",
        per_rho=4.0,
    )

    def correct(self, g: Tensor, w: Tensor, ctx: Context) -> Tensor:
        if self.fresh == UNWEIGHTED:
            return g.add_(ctx.server["direction"], alpha=1 - self.alpha)
        return super().correct(g, w, ctx)
