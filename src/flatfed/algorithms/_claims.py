"""An algorithm's claims, which the contract test checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reduction:
    """With ``params`` the algorithm equals algorithm ``to`` with ``to_params`` exactly, for all data and participation.

    ``when``: settings of the run that the identity needs, such as {"sampling": {"scheme": "all"}}.
    """

    params: Mapping[str, Any]
    to: str
    to_params: Mapping[str, Any] = field(default_factory=dict)
    when: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Claims:
    """Exact reductions, and the limit on a strongly convex quadratic.

    ``one_client``: the centralised algorithm that it equals with one client. ``ends_at``: with full participation, a
    constant rate, no decay and no clip, it ends at the ``optimum`` of the mean loss or at the ``fixed point`` of its
    linear round map, within ``per_rho`` times rho. None, with a ``reason``: no claim.
    """

    reductions: tuple[Reduction, ...] = ()
    one_client: str | None = None
    ends_at: str | None = None
    per_rho: float = 0.0
    reason: str = ""
