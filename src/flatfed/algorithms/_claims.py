"""What an algorithm's file claims about it, so that one contract test can hold every algorithm to its word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reduction:
    """With ``params`` the algorithm is algorithm ``to`` with ``to_params``, exactly, whatever data and participation.

    ``when``: keys of the run description the identity needs, such as {"sampling": {"scheme": "all"}}.
    """

    params: Mapping[str, Any]
    to: str
    to_params: Mapping[str, Any] = field(default_factory=dict)
    when: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Claims:
    """Exact reductions, and where the algorithm ends on a strongly convex quadratic.

    ``one_client``: the centralised algorithm that it is when there is one client. ``ends_at``: with everybody active,
    no decay, no clip and a constant rate it ends at the ``optimum`` of the mean loss (drift is corrected) or at the
    ``fixed point`` of its own linear round map, within ``per_rho`` times rho; None, with the ``reason``, where it
    claims neither.
    """

    reductions: tuple[Reduction, ...] = ()
    one_client: str | None = None
    ends_at: str | None = None
    per_rho: float = 0.0
    reason: str = ""
