"""What each shipped algorithm claims, which the contract tests check."""

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


FULL = {"topology": {"graph": "full"}, "sampling": {"scheme": "all"}}  # gossip is the server's mean
IDLE = {"clip_norm": None}  # with an active clip, c - c_i does not cancel

#: Algorithm -> its claims.
CLAIMS = {
    "centralised_sam": Claims((Reduction({"rho": 0.0}, "centralised_sgd"),), ends_at="fixed point", per_rho=4.0),
    "centralised_sgd": Claims((Reduction({}, "fedavg", when={"partition": {"clients": 1}}),), ends_at="fixed point"),
    "dfedavg": Claims((Reduction({}, "fedavg", when=FULL),), ends_at="fixed point"),
    "dfedavgm": Claims((Reduction({"momentum": 0.0}, "dfedavg"),), ends_at="fixed point"),
    "dfedsam": Claims(
        (Reduction({"rho": 0.0}, "dfedavg"), Reduction({"rho": 0.3}, "fedsam", {"rho": 0.3}, when=FULL)),
        ends_at="fixed point",
        per_rho=4.0,
    ),
    "dfedsam_mgs": Claims(
        (Reduction({"gossip_steps": 1, "rho": 0.3}, "dfedsam", {"rho": 0.3}),), ends_at="fixed point", per_rho=4.0
    ),
    "dispfl": Claims(
        (Reduction({"density": 1.0}, "dpsgd", {"order": "official_code"}),),
        reason="every node has weights of its own that no other has; at density 1 it is D-PSGD",
    ),
    "dpsgd": Claims(
        (Reduction({}, "fedavg", when={"topology": {"graph": "full"}, "sampling": {"scheme": "all"}, "rounds": 1}),),
        ends_at="fixed point",
    ),
    "fedadam": Claims(ends_at="fixed point"),
    "fedavg": Claims(one_client="centralised_sgd", ends_at="fixed point"),
    "fedcm": Claims((Reduction({"alpha": 1.0}, "fedavg"),), ends_at="fixed point"),
    "feddyn": Claims(ends_at="optimum"),
    "fedgamma": Claims(
        (Reduction({"rho": 0.0}, "scaffold"),), one_client="centralised_sam", ends_at="optimum", per_rho=4.0
    ),
    "fedgmt": Claims(ends_at="optimum"),
    "fedlesam": Claims((Reduction({"rho": 0.0}, "fedavg"),), ends_at="fixed point", per_rho=4.0),
    "fedlesam_d": Claims((Reduction({"rho": 0.0}, "feddyn"),), ends_at="optimum", per_rho=4.0),
    "fedlesam_s": Claims((Reduction({"rho": 0.0}, "scaffold"),), ends_at="optimum", per_rho=4.0),
    "fedprox": Claims((Reduction({"mu": 0.0}, "fedavg"),), ends_at="fixed point"),
    "fedrobust": Claims(
        (Reduction({"ascent": 0.0}, "fedavg"),),
        reason="a minimax game: the shifted losses' stationary point has no closed form; with ascent 0 it is FedAvg",
    ),
    "fedsam": Claims(
        (Reduction({"rho": 0.0}, "fedavg"),), one_client="centralised_sam", ends_at="fixed point", per_rho=4.0
    ),
    "fedsmoo": Claims((Reduction({"rho": 0.0}, "feddyn"),), ends_at="optimum", per_rho=4.0),
    "fedspeed": Claims((Reduction({"rho": 0.0}, "feddyn"),), ends_at="optimum", per_rho=4.0),
    "fedwmsam": Claims(ends_at="optimum", per_rho=4.0),
    "mimelite": Claims((Reduction({"alpha": 1.0}, "fedavg"),), ends_at="fixed point"),
    "mofedsam": Claims(
        (
            Reduction({"rho": 0.0, "alpha": 0.3}, "fedcm", {"alpha": 0.3}),
            Reduction({"alpha": 1.0, "rho": 0.3}, "fedsam", {"rho": 0.3}),
        ),
        ends_at="fixed point",
        per_rho=4.0,
    ),
    "scaffold": Claims(
        (Reduction({}, "fedavg", when={"sampling": {"scheme": "all"}, "local_epochs": 1, "batch_size": 1000, **IDLE}),),
        one_client="centralised_sgd",
        ends_at="optimum",
    ),
}
