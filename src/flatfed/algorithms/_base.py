"""What an algorithm is: a handful of hooks on rows, every one with FedAvg's behaviour as its default.

Every model that trains together is a row of one matrix ``w`` of shape (rows, parameters); a row is one client.
Norms, clips and inner products are per row. A client's round is ``start``, local steps, ``finish``; the server's is
``aggregate``. One local step, in the order of the official code:

    e = perturbation(w, gradient, ctx)             None, or where to take the gradient instead: w + e
    update_dual(e, ctx)                            dual variables of the perturbation, if there is one
    g = gradient(w + e)                            mean cross-entropy of the step's batch, per row
    G = correct(g, w, ctx)                         linear corrections: control variates, duals, momentum
    d = clip(G) + (weight_decay + proximal) * w    the clip sees neither the decay nor the proximal quadratic
    update(w, d, ctx)                              w <- w - lr d

The rules that keep every executor possible: no Python branch on data, round or client inside a step; the learning
rate is a tensor of ``ctx``; state changes only in place, in the rows given; server vectors are rows that broadcast;
no module, loader or device is ever seen. ``g`` belongs to the algorithm until it asks for the next gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

from flatfed.algorithms._claims import Claims
from flatfed.algorithms._parameters import Choice, Number, Whole, checked
from flatfed.algorithms._rows import gossip
from flatfed.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

    from flatfed.engine.context import Context, Gradient

    Mixing = Callable[[int], Tensor]

#: Kinds of vectors that an algorithm declares, and names that are taken: the engine keeps those itself.
STATE = {
    "client_state": ("model", "private"),
    "server_state": ("w",),
    "scratch": ("previous", "full_gradient"),
}


def check_state(kind: str, names: Any, where: str) -> None:
    """Refuse ``names`` of vectors of a ``kind`` that are no names or taken; ConfigError beginning with ``where``."""
    if not isinstance(names, tuple) or not all(isinstance(one, str) for one in names):
        raise ConfigError(f"{where}: {kind} is {names!r}; wanted: a tuple of names")
    for one in names:
        if one in STATE[kind]:
            raise ConfigError(f"{where}: {kind} may not have {one!r}, which the engine keeps itself")


class Algorithm:
    """Base of all algorithms; hyper-parameters are class attributes of type Number, Whole or Choice.

    ``client_state``: names of vectors every client keeps between rounds, zero at first: ``ctx.client[name]``.
    ``server_state``: names of vectors the server keeps beside the model, zero at first: ``ctx.server[name]``.
    ``scratch``: names of row matrices that live from ``start`` to ``finish``, zero at first: ``ctx.scratch[name]``.
    These three are joined along the inheritance: a class declares its own vectors, and has those of its bases before
    them. Two bases that declare one name independently are refused, unless the class repeats it: then they share the
    vector.

    ``remembers``: ``ctx.scratch["previous"]`` is the model that the client received last, 0 before its first round.
    ``communication``: (download, upload) in model sizes, of one active client in one round; decentralised, both ends of
    one link in one gossip step.
    ``counted``: the model sizes each way that its paper's tables count in place of the larger of these, where they do.
    ``gradients_per_step``: gradient evaluations of one local step; ``full_passes``: 1 if
    ``ctx.scratch["full_gradient"]`` is the gradient on all of the client's data at the received model, unaugmented.
    ``central``: trains on one client that has all data, in a split of scheme central, and nowhere else.
    ``decentralised``: no server; every client keeps a model of its own and mixes it with its neighbours' after local
    training, or before it if ``mix_first``; ``gossip_steps`` mixes a round.
    ``whole_rows``: weights are treated by sums, scalings, norms and inner products of whole rows only, none coordinate
    by coordinate. Only what the class itself says counts, never a base: a wrong "yes" would be silent. ``claims``: what
    the contract test holds it to. ``version``: increased when its numbers change (:mod:`flatfed.engine.versions`).
    """

    version: int = 1
    client_state: tuple[str, ...] = ()
    server_state: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()
    remembers: bool = False
    communication: tuple[float, float] = (1, 1)
    counted: float | None = None
    gradients_per_step: int = 1
    full_passes: int = 0
    central: bool = False
    decentralised: bool = False
    gossip_steps: Whole | int = 1
    mix_first: bool = False
    whole_rows: bool = False
    claims: Claims = Claims()

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        for kind in STATE:
            setattr(cls, kind, _joined(cls, kind))

    def __init__(self, **values: Any):
        vars(self).update(checked(self.parameters(), values, "parameter", f"algorithm {type(self).__name__}"))

    @classmethod
    @cache
    def parameters(cls) -> dict[str, Number | Whole | Choice]:
        """Return name -> declaration of all hyper-parameters, inherited ones included."""
        found = {}
        for base in reversed(cls.__mro__):
            found.update(
                {name: value for name, value in vars(base).items() if isinstance(value, Number | Whole | Choice)}
            )
        return found

    def keeps_rows_whole(self) -> bool:
        """Return whether rows are treated as wholes: the class itself says so, and no option chosen is by place."""
        options = {name: each for name, each in self.parameters().items() if isinstance(each, Choice)}
        by_place = any(getattr(self, name) in each.by_place for name, each in options.items())
        return bool(vars(type(self)).get("whole_rows")) and not by_place

    def filled_scratch(self) -> tuple[str, ...]:
        """Return the names of the vectors of ``ctx.scratch`` that the engine fills."""
        return ("previous",) * self.remembers + ("full_gradient",) * bool(self.full_passes)

    def stored_vectors(self) -> int:
        """Return how many vectors of the model's size a client holds: the model, its state, what comes beside it."""
        return round(1 + len(self.client_state) + self.remembers + max(0, self.communication[0] - 1))

    @property
    def proximal(self) -> float:
        """Coefficient of a proximal term's quadratic half, added to the weight decay after the clip."""
        return 0.0

    def start(self, w: Tensor, ctx: Context) -> None:
        """Before the first local step: ``w`` (rows, parameters) holds the received model; fill scratch here."""

    def perturbation(self, w: Tensor, gradient: Gradient, ctx: Context) -> Tensor | None:
        """Return e (rows, parameters), so that the step's gradient is taken at w + e; None for none."""
        return None

    def update_dual(self, e: Tensor, ctx: Context) -> None:
        """Update dual variables of the perturbation ``e`` (rows, parameters) in place, before the gradient at w + e."""

    def correct(self, g: Tensor, w: Tensor, ctx: Context) -> Tensor:
        """Return the gradient (rows, parameters) with the linear corrections, which the engine then changes in place.

        May change ``g`` in place and return it; not ``w``.
        """
        return g

    def update(self, w: Tensor, d: Tensor, ctx: Context) -> None:
        """Move ``w`` in place along the direction ``d``: w <- w - lr d."""
        w.addcmul_(d, ctx.lr, value=-1)

    def finish(self, w: Tensor, ctx: Context) -> dict[str, Tensor]:
        """After the last local step: update client state in place; return what is uploaded beside the model."""
        return {}

    def aggregate(self, server: dict[str, Tensor], uploads: dict[str, Tensor], ctx: Context) -> None:
        """Update the server's vectors (1, parameters) in place from ``uploads`` (active clients, parameters).

        ``uploads["w"]`` are the local models; ``server["w"]`` enters as w^t and leaves as w^{t+1}: here their mean.
        """
        server["w"].copy_(uploads["w"].mean(dim=0, keepdim=True))

    def begin(self, models: Tensor, ctx: Context) -> None:
        """Decentralised, once before the first round: ``models`` (clients, parameters) all hold the initial weights."""

    def mix(self, models: Tensor, mixing: Mixing, ctx: Context) -> None:
        """Decentralised: move the clients' ``models`` X (clients, parameters) in place to W X.

        ``mixing(q)`` is W (clients, clients) of the round's gossip step q; ``ctx.client`` the state of all clients.
        """
        gossip(models, mixing(0))

    def private_size(self, image_shape: tuple[int, int, int]) -> int:
        """Number of coordinates that a client trains, keeps between rounds and never sends; zero at first.

        They stand at the end of its row, are neither clipped nor decayed, and reach :meth:`transform`; images have
        shape (C, H, W).
        """
        return 0

    def transform(self, images: Tensor, private: Tensor) -> Tensor:
        """Return the batch (B, C, H, W) as this client's private coordinates (private_size,) show it to the model."""
        return images

    def evaluated(self, server: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return name -> model (1, parameters); the first is the one tables show, others are evaluated at the end."""
        return {"server": server["w"]}


def _joined(kind: type, state: str) -> tuple[str, ...]:
    """Return the names of vectors that ``kind`` and its bases declare, each once: from the last of the bases to itself.

    :raises ConfigError: names that cannot be, or one that two bases have of which neither has it from the other.
    """
    names: dict[str, None] = {}
    for base in reversed(kind.__mro__):
        check_state(state, vars(base).get(state, ()), f"algorithm {base.__name__}")
        names.update(dict.fromkeys(vars(base).get(state, ())))
    own = vars(kind).get(state, ())
    for one, other in combinations(kind.__bases__, 2):
        both = set(getattr(one, state, ())) & set(getattr(other, state, ())) - set(own)
        common = set(one.__mro__) & set(other.__mro__)
        for name in sorted(both.difference(*(vars(base).get(state, ()) for base in common))):
            raise ConfigError(
                f"algorithm {kind.__name__}: {state}: {one.__name__} and {other.__name__} both have a vector {name!r}; "
                f"rename one of them, or declare it in {kind.__name__} too where they are to share it"
            )
    return tuple(names)
