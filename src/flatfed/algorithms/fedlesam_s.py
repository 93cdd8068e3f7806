"""FedLESAM-S (Fan et al. 2024, Alg. 3): SCAFFOLD on FedLESAM's perturbed gradient.

    e_i as FedLESAM;   w <- w - eta [g(w + e_i) - c_i + c];   c_i, c and the server as SCAFFOLD

Alg. 3 prints SCAFFOLD's correction with the wrong sign and adds c_i itself to c; FlatFed does neither. The official
code multiplies the correction by 0.1 but not the update of c_i, which then does not estimate the client's gradient:
``correction: official_code``. rho = 0.1 (section 6.1).
"""

from __future__ import annotations

from flatfed.algorithms._context import Context, Tensor, Vectors
from flatfed.algorithms._lesam import LocallyEstimated
from flatfed.algorithms._parameters import Choice, Number
from flatfed.algorithms.scaffold import Scaffold

OFFICIAL_FACTOR = 0.1  # the official code's --lamb


class FedLESAMS(LocallyEstimated, Scaffold):
    rho = Number(0.1, "radius of the perturbation; 0 is SCAFFOLD", minimum=0)
    correction = Choice(
        "paper",
        ("paper", "official_code"),
        "factor of c - c_i in a step: 1, or the official 0.1",
        "with 0.1, c_i no longer estimates the client's gradient",
    )
    whole_rows = True

    def start(self, w: Tensor, ctx: Context) -> Vectors:
        changed = super().start(w, ctx)
        factor = OFFICIAL_FACTOR if self.correction == "official_code" else 1
        return {**changed, "correction": changed["correction"] * factor}
