"""SGD on all data, without federation.

    w <- w - eta [clip(g) + weight_decay w]

A round has the n K gradient steps of a federated round (``steps_of`` of the split), so rounds and learning rates
correspond.
"""

from __future__ import annotations

from flatfed.algorithms._base import Algorithm


class CentralisedSGD(Algorithm):
    central = True
    communication = (0, 0)
    whole_rows = True
