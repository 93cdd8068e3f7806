"""What each shipped algorithm claims, which the contract tests check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flatfed import algorithms


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
    linear round map, within PER_RHO times rho. None: no claim.
    """

    reductions: tuple[Reduction, ...]
    one_client: str | None
    ends_at: str | None


PER_RHO = 4.0
FLAT, SHARP = {"rho": 0.0}, {"rho": 0.3}
AVERAGED = {"last_rate": 1.0, "server_learning_rate": 1.0}
EVERYBODY = {"sampling": {"scheme": "all"}}
FULL = {"topology": {"graph": "full"}, **EVERYBODY}  # gossip is the server's mean
IDLE = {**EVERYBODY, "local_epochs": 1, "batch_size": 1000, "clip_norm": None}  # else c - c_i does not cancel

#: Algorithm -> its reductions.
REDUCTIONS = {
    "centralised_sam": (Reduction(FLAT, "centralised_sgd"),),
    "centralised_sgd": (Reduction({}, "fedavg", when={"partition": {"clients": 1}}),),
    "dfedavg": (Reduction({}, "fedavg", when=FULL),),
    "dfedavgm": (Reduction({"momentum": 0.0}, "dfedavg"),),
    "dfedsam": (Reduction(FLAT, "dfedavg"), Reduction(SHARP, "fedsam", SHARP, when=FULL)),
    "dfedsam_mgs": (Reduction({"gossip_steps": 1, **SHARP}, "dfedsam", SHARP),),
    "dispfl": (Reduction({"density": 1.0}, "dpsgd", {"order": "official_code"}),),
    "dpsgd": (Reduction({}, "fedavg", when={**FULL, "rounds": 1}),),
    "fedcm": (Reduction({"alpha": 1.0}, "fedavg"),),
    "fedgamma": (Reduction(FLAT, "scaffold"),),
    "fedlesam": (Reduction(FLAT, "fedavg"),),
    "fedmoswa": (Reduction({**AVERAGED, "adaptation": 1.0}, "scaffold", when=EVERYBODY),),
    "fedlesam_d": (Reduction(FLAT, "feddyn"),),
    "fedlesam_s": (Reduction(FLAT, "scaffold"),),
    "fedprox": (Reduction({"mu": 0.0}, "fedavg"),),
    "fedrobust": (Reduction({"ascent": 0.0}, "fedavg"),),
    "fedsam": (Reduction(FLAT, "fedavg"),),
    "fedsmoo": (Reduction(FLAT, "feddyn"),),
    "fedspeed": (Reduction(FLAT, "feddyn"),),
    "fedswa": (Reduction(AVERAGED, "fedavg"),),
    "mimelite": (Reduction({"alpha": 1.0}, "fedavg"),),
    "mofedsam": (
        Reduction({**FLAT, "alpha": 0.3}, "fedcm", {"alpha": 0.3}),
        Reduction({"alpha": 1.0, **SHARP}, "fedsam", SHARP),
    ),
    "scaffold": (Reduction({}, "fedavg", when=IDLE),),
}
ONE_CLIENT = {
    **dict.fromkeys(("fedavg", "scaffold"), "centralised_sgd"),
    **dict.fromkeys(("fedsam", "fedgamma"), "centralised_sam"),
}
OPTIMUM = (
    *("feddyn", "fedgamma", "fedgmt", "fedlesam_d", "fedlesam_s", "fedmoswa", "fedsmoo", "fedspeed", "fedwmsam"),
    "scaffold",
)
#: DisPFL's nodes have weights that no other has; of FedRobust's minimax game no closed form is known.
UNKNOWN = "dispfl", "fedrobust"

#: Algorithm -> its claims.
CLAIMS = {
    name: Claims(
        REDUCTIONS.get(name, ()),
        ONE_CLIENT.get(name),
        None if name in UNKNOWN else "optimum" if name in OPTIMUM else "fixed point",
    )
    for name in algorithms.names()
}
