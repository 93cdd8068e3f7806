"""DFedAvg (Sun et al. 2022): K local SGD steps on every node, then one gossip step.

    z_i = x_i after K steps of x <- x - eta g_i(x);   x_i <- sum_l w_il z_l

On the full graph it equals FedAvg with full participation.
"""

from __future__ import annotations

from flatfed.algorithms._base import Algorithm


class DFedAvg(Algorithm):
    decentralised = True
    whole_rows = True
