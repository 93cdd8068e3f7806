"""What an algorithm is: a handful of hooks on rows, every one with FedAvg's behaviour as its default.

Every model that trains together is a row of one matrix ``w`` of shape (rows, parameters); a row is one client.
Norms, clips and inner products are per row. One local step, in the order of the official code:

    e = perturbation(w, gradient, ctx)             None, or where to take the gradient instead: w + e
    g = gradient(w + e)                            mean cross-entropy of the step's batch, per row
    G = correct(g, ctx)                            linear corrections: control variates, duals, momentum
    d = clip(G) + (weight_decay + proximal) * w    the clip sees neither the decay nor the proximal quadratic
    update(w, d, ctx)                              w <- w - lr d

The rules that keep every executor possible: no Python branch on data, round or client inside a step; the learning
rate is a tensor of ``ctx``; state changes only in place, in the rows given; server vectors are rows that broadcast;
no module, loader or device is ever seen. ``g`` belongs to the algorithm until it asks for the next gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from flatfed.algorithms._claims import Claims
from flatfed.algorithms._parameters import Choice, Number, Whole
from flatfed.algorithms._rows import gossip
from flatfed.errors import ConfigError, unknown

if TYPE_CHECKING:
    from torch import Tensor

    from flatfed.engine.context import Context, Gradient

    Mixing = Callable[[int], Tensor]


class Algorithm:
    """Base of all algorithms; hyper-parameters are class attributes of type Number, Whole or Choice.

    ``client_state``: names of vectors every client keeps between rounds, zero at first: ``ctx.client[name]``.
    ``server_state``: names of vectors the server keeps beside the model, zero at first: ``ctx.server[name]``.
    ``scratch``: names of row matrices that live for one round, zero at its start: ``ctx.scratch[name]``. ``remembers``:
    every client keeps the model it last received: ``ctx.previous``. ``communication``: (download, upload) in model
    sizes, of one active client in one round; decentralised, both ends of one link in one gossip step.
    ``gradients_per_step``: gradient evaluations of one local step; ``full_passes``: gradients on all of a client's data
    that it takes in a round beside them. ``central``: trains on one client that has all data, in a split of scheme
    central, and nowhere else. ``decentralised``: no server; every client keeps a model of its own and mixes it with its
    neighbours' after local training, or before it where ``mix_first``; ``gossip_steps`` mixes a round. ``alike``: all
    weights are treated alike, by sums, scalings, norms and inner products of whole rows, none coordinate by coordinate.
    Only what the class itself says counts, never a base: a wrong "yes" would be silent. ``claims``: what the contract
    test holds it to.
    """

    client_state: tuple[str, ...] = ()
    server_state: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()
    remembers: bool = False
    communication: tuple[float, float] = (1, 1)
    gradients_per_step: int = 1
    full_passes: int = 0
    central: bool = False
    decentralised: bool = False
    gossip_steps: Whole | int = 1
    mix_first: bool = False
    alike: bool = False
    claims: Claims = Claims()

    def __init__(self, **values: Any):
        known = self.parameters()
        where = f"algorithm {type(self).__name__}"
        for name in values:
            if name not in known:
                raise ConfigError(unknown("parameter", name, known, where))
        for name, parameter in known.items():
            setattr(self, name, parameter.check(values.get(name, parameter.default), f"{where}: {name}"))

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

    def correct(self, g: Tensor, ctx: Context) -> Tensor:
        """Return the gradient (rows, parameters) with the linear corrections; may change ``g`` in place."""
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
