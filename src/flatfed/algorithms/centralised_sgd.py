"""SGD on all data, without federation.

    w <- w - eta [clip(g) + weight_decay w]

A round has the n K gradient steps of a federated round (``steps_of`` of the split), so rounds and learning rates
correspond.
"""

from __future__ import annotations

from flatfed.algorithms._base import Algorithm
from flatfed.algorithms._claims import Claims, Reduction


class CentralisedSGD(Algorithm):
    central = True
    communication = (0, 0)
    whole_rows = True
    claims = Claims((Reduction({}, "fedavg", when={"partition": {"clients": 1}}),), ends_at="fixed point")
