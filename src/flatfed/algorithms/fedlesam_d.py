"""FedLESAM-D (Fan et al. 2024, Alg. 4): FedDyn on FedLESAM's perturbed gradient.

    e_i as FedLESAM;   w <- w - eta [g(w + e_i) + lambda (h_i - w^t) + lambda w];   h_i and the server as FedDyn

Alg. 4 adds the dual instead of subtracting it, omits it at the server and divides by K. FlatFed uses FedDyn's
form, as the official code does. rho = 0.1 (section 6.1). One model goes each way; the paper's Table 7 counts two.
"""

from __future__ import annotations

from flatfed.algorithms._lesam import LocallyEstimated
from flatfed.algorithms._parameters import Number
from flatfed.algorithms.feddyn import FedDyn


class FedLESAMD(LocallyEstimated, FedDyn):
    rho = Number(0.1, "radius of the perturbation; 0 is FedDyn", minimum=0)
    counted = 2  # Tables 5, 7 and 9
    whole_rows = True
