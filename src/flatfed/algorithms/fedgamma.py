"""FedGAMMA (Dai et al. 2023): SCAFFOLD's control variates on SAM's gradient.

    e = rho g(w) / ||g(w)||;   w <- w - eta [g(w + e) - c_i + c];   c_i, c and the server as SCAFFOLD

rho = 0.1: FedLESAM appendix E.1.
"""

from __future__ import annotations

from flatfed.algorithms._parameters import Number
from flatfed.algorithms._sam import SharpnessAware
from flatfed.algorithms.scaffold import Scaffold


class FedGAMMA(SharpnessAware, Scaffold):
    rho = Number(0.1, "radius of the perturbation; 0 is SCAFFOLD", minimum=0)
    whole_rows = True
