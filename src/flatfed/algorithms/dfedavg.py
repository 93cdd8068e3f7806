"""DFedAvg (Sun et al. 2022): K local SGD steps on every node, then one gossip step with its neighbours.

    z_i = x_i after K steps of x <- x - eta g_i(x);   x_i <- sum_l w_il z_l

On the full graph this is FedAvg with everybody active.

Evidence: golden values, rounds by hand, a second implementation, identities. No run at a paper's setting is finished.
"""

from __future__ import annotations

from flatfed.algorithms._base import Algorithm
from flatfed.algorithms._claims import Claims, Reduction

FULL = {"topology": {"graph": "full"}, "sampling": {"scheme": "all"}}  # where gossip is the server's mean


class DFedAvg(Algorithm):
    """Local SGD and gossip."""

    decentralised = True
    whole_rows = True
    claims = Claims((Reduction({}, "fedavg", when=FULL),), ends_at="fixed point")
