"""SGD on all data at one place: the reference without federation.

    w <- w - eta [clip(g) + weight_decay w]

A round has as many gradient steps as the federated round it is compared with, n K (``steps_of`` of the split), so that
rounds and the learning rate's decay mean the same for both.

Evidence: golden values, rounds by hand, a second implementation, identities. No run at a paper's setting is finished.
"""

from __future__ import annotations

from flatfed.algorithms._base import Algorithm
from flatfed.algorithms._claims import Claims, Reduction


class CentralisedSGD(Algorithm):
    """SGD on all data."""

    central = True
    communication = (0, 0)
    whole_rows = True
    claims = Claims((Reduction({}, "fedavg", when={"partition": {"clients": 1}}),), ends_at="fixed point")
