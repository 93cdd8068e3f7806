"""DFedSAM (Shi et al. 2023, Alg. 1 with Q = 1): K local SAM steps on every node, then one gossip step.

    e = rho g(y) / ||g(y)||;   y <- y - eta g(y + e);   z_i = y after K steps;   x_i <- sum_l w_il z_l

Alg. 1 prints y <- x inside the loop over k; it belongs before it. rho = 0.01 (appendix B.3). On the full graph it
equals FedSAM with full participation.
"""

from __future__ import annotations

from flatfed.algorithms._sam import SharpnessAware
from flatfed.algorithms.dfedavg import DFedAvg


class DFedSAM(SharpnessAware, DFedAvg):
    whole_rows = True
