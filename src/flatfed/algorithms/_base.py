"""The base of all algorithms: hooks on rows. The defaults are FedAvg; the class ``FedAvg`` adds a server learning rate.

The models that train together are the rows of a matrix ``w`` (rows, parameters), one row per client. Norms, clips and
inner products are per row. A client's round is ``start``, local steps, ``finish``; the server's is ``aggregate``. A
local step, in the order of the official code:

    e = perturbation(w, gradient, ctx)             None, or the gradient is taken at w + e
    mu = update_dual(e, ctx)                       dual variables of the perturbation, if there is one
    g = gradient(w + e)                            mean cross-entropy, or ``loss``, of the step's batch, per row
    G = correct(g, w, ctx)                         linear corrections: control variates, duals, momentum
    d = clip(G) + (weight_decay + proximal) * w    the clip excludes decay and proximal quadratic
    w = update(w, d, ctx)                          w - lr d

Hooks return the vectors that change, and the engine checks and writes them. To save memory, a hook may change a vector
in place and return it. Server vectors are rows that broadcast. In a local step: do not branch on data, round or client;
use ``ctx.lr``, a tensor; ``g`` may change in place until the next gradient.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

from flatfed.algorithms._context import Context, Gradient, Mixing, Tensor, Vectors
from flatfed.algorithms._parameters import Choice, Number, Whole, check_values
from flatfed.algorithms._rows import gossip
from flatfed.errors import ConfigError

#: Kind of vectors that an algorithm declares -> names that the engine uses.
VECTOR_KINDS = {
    "client_state": ("model", "local", "buffers"),
    "server_state": ("w",),
    "server_scalars": ("w",),
    "scratch": ("previous", "full_gradient", "sgd_momentum"),
}


class Algorithm:
    """Base of all algorithms; hyper-parameters are class attributes of type Number, Whole or Choice.

    Vectors are zero at first; a class also has those of its bases. If two bases declare one name independently, the
    class must repeat it, and they share the vector. ``client_state``: kept by each client between rounds:
    ``ctx.client[name]``. ``server_state``: kept by the server: ``ctx.server[name]``; ``server_scalars``: likewise, of
    shape (1, 1). ``scratch``: row matrices from ``start`` to ``finish``: ``ctx.scratch[name]``. ``remembers``:
    ``ctx.scratch["previous"]`` is the model that the client received last. ``local``: names of parameters, or patterns
    such as ``head.*``, that each client keeps and never sends; they are the model's own at first. The evaluated model
    has their mean over the round's clients, like the others.

    ``communication``: (download, upload) in model sizes, per active client and round; decentralised: both ends of a
    link in a gossip step. ``counted``: model sizes per direction in the paper's tables, if they differ from the larger
    of these. ``gradients_per_step``: gradients of a local step; ``forward_passes``: further forward passes.
    ``counts_steps``: hooks of a local step read ``ctx.step``. ``full_passes``: 1 if ``ctx.scratch["full_gradient"]`` is
    the unaugmented gradient on all of the client's data at the received model.

    ``central``: trains on one client with all data. ``decentralised``: no server; each client mixes its model with its
    neighbours' after local training, or before it if ``mix_first``, in ``gossip_steps`` a round. ``whole_rows``: uses
    weights only in sums, scalings, norms and inner products of whole rows, so the engine may leave out weights that
    only meet padding. Each class must declare it for itself: a hook can break it. ``own_momentum``: its local steps
    have a momentum, to which ``momentum`` of a protocol adds another. ``version``: increase it when results change.
    """

    version: int = 1
    client_state: tuple[str, ...] = ()
    server_state: tuple[str, ...] = ()
    server_scalars: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()
    remembers: bool = False
    local: tuple[str, ...] = ()
    communication: tuple[float, float] = (1, 1)
    counted: float | None = None
    gradients_per_step: int = 1
    forward_passes: int = 0
    counts_steps: bool = False
    full_passes: int = 0
    central: bool = False
    decentralised: bool = False
    gossip_steps: Whole | int = 1
    mix_first: bool = False
    whole_rows: bool = False
    own_momentum: bool = False

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        for kind in VECTOR_KINDS:
            setattr(cls, kind, _joined(cls, kind))

    def __init__(self, **values: Any):
        vars(self).update(check_values(self.parameters(), values, "parameter", f"algorithm {type(self).__name__}"))

    @classmethod
    @cache
    def parameters(cls) -> dict[str, Number | Whole | Choice]:
        """Return name -> declaration of all hyper-parameters, also inherited ones that no class sets to a value."""
        declared: dict[str, Any] = {}
        for name, value in (pair for base in reversed(cls.__mro__) for pair in vars(base).items()):
            if isinstance(value, Number | Whole | Choice) or name in declared:
                declared[name] = value
        return {name: value for name, value in declared.items() if isinstance(value, Number | Whole | Choice)}

    def keeps_rows_whole(self) -> bool:
        """Return whether the class itself declares ``whole_rows``."""
        return bool(vars(type(self)).get("whole_rows"))

    def stored_vectors(self) -> int:
        """Return how many vectors of the model's size a client stores."""
        return round(1 + len(self.client_state) + self.remembers + max(0, self.communication[0] - 1))

    @property
    def proximal(self) -> float:
        """Coefficient of a proximal term's quadratic half."""
        return 0.0

    @property
    def radius(self) -> float:
        """Norm of the perturbation, which must not be lost in bfloat16; 0: unknown or none."""
        return getattr(self, "rho", 0.0)

    def start(self, w: Tensor, ctx: Context) -> Vectors:
        """Before the first local step: return scratch vectors.

        ``w`` (rows, parameters) is a copy of the received model: a change in place moves the start of the local steps,
        but not ``ctx.received``.
        """
        return {}

    def second_model(self, ctx: Context) -> Tensor | None:
        """Return the model (1, parameters) whose logits :meth:`loss` sees, or None for cross-entropy.

        Without this hook, :meth:`loss` applies in all steps, with None in place of the second model's logits.
        """
        return None

    def loss(self, logits: Tensor, labels: Tensor, second: Tensor | None) -> Tensor:
        """Return the loss of each image (B,), in place of cross-entropy.

        ``logits`` (B, classes): of a row; ``second``: those of :meth:`second_model`, None without that hook.
        """
        raise NotImplementedError

    def perturbation(self, w: Tensor, gradient: Gradient, ctx: Context) -> Tensor | None:
        """Return e (rows, parameters) to take the step's gradient at w + e, or None."""
        return None

    def update_dual(self, e: Tensor, ctx: Context) -> Vectors:
        """Return client vectors: dual variables of ``e`` (rows, parameters)."""
        return {}

    def correct(self, g: Tensor, w: Tensor, ctx: Context) -> Tensor:
        """Return the corrected gradient (rows, parameters); must not change ``w``."""
        return g

    def update(self, w: Tensor, d: Tensor, ctx: Context) -> Tensor:
        """Return ``w`` moved along ``d``; may change ``w`` in place, not ``d``."""
        return w.addcmul_(d, ctx.lr, value=-1)

    def update_local(self, local: Tensor, g: Tensor, ctx: Context) -> Tensor:
        """Return the ``local`` parameters (rows, their number) after a step, in place of :meth:`update`.

        ``g``: their part of the corrected gradient, without clip, decay and momentum; the others' clip excludes it.
        """
        raise NotImplementedError

    def finish(self, w: Tensor, ctx: Context) -> tuple[Vectors, Vectors]:
        """After the last local step: return client vectors, and uploads.

        The local models are the upload "w" unless this hook returns another one.
        """
        return {}, {}

    def aggregate(self, server: Vectors, uploads: Vectors, ctx: Context) -> Vectors:
        """Return the server's vectors (1, parameters) from ``uploads`` (active clients, parameters).

        ``uploads["w"]``: the local models; ``server["w"]`` is w^t, the returned "w" is w^{t+1}.
        """
        return {"w": uploads["w"].mean(dim=0, keepdim=True)}

    def begin(self, models: Tensor, ctx: Context) -> Vectors:
        """Decentralised, before the first round: return the first models as "model", and client vectors.

        All ``models`` (clients, parameters) are the initial weights; ``ctx.client``: state of all clients.
        """
        return {"model": models}

    def mix(self, models: Tensor, mixing: Mixing, ctx: Context) -> Vectors:
        """Decentralised: return the mixed ``models`` W X (clients, parameters) as "model", and client vectors.

        ``mixing(q)``: W (clients, clients) of gossip step q; ``ctx.client``: state of all clients.
        """
        return {"model": gossip(models, mixing(0))}

    def front_size(self, image_shape: tuple[int, int, int]) -> int:
        """Number of the parameters ``algorithm_front.values`` of :meth:`transform`, for images (C, H, W)."""
        return 0

    def transform(self, images: Tensor, front: Tensor) -> Tensor:
        """Return the images (B, C, H, W) for the model; ``front``: :meth:`front_size` parameters, zero at first."""
        return images

    def evaluated(self, server: Vectors) -> Vectors:
        """Return name -> model (1, parameters); tables show the first."""
        return {"server": server["w"]}


def _joined(kind: type, state: str) -> tuple[str, ...]:
    """Return the names of vectors that ``kind`` and its bases declare, those of base classes first.

    :raises ConfigError: declarations that are no names, that the engine uses, or that two bases share by chance.
    """
    names: dict[str, None] = {}
    for base in reversed(kind.__mro__):
        declared = vars(base).get(state, ())
        if not isinstance(declared, tuple) or not all(isinstance(name, str) for name in declared):
            raise ConfigError(f"algorithm {base.__name__}: {state} is {declared!r}; expected: a tuple of names")
        for name in declared:
            if name in VECTOR_KINDS[state]:
                raise ConfigError(f"algorithm {base.__name__}: {state} may not have {name!r}, which the engine uses")
        names.update(dict.fromkeys(declared))
    repeated = vars(kind).get(state, ())
    for left, right in combinations(kind.__bases__, 2):
        shared = set(getattr(left, state, ())) & set(getattr(right, state, ())) - set(repeated)
        common = set(left.__mro__) & set(right.__mro__)
        for name in sorted(shared.difference(*(vars(base).get(state, ()) for base in common))):
            raise ConfigError(
                f"algorithm {kind.__name__}: {state}: {left.__name__} and {right.__name__} both have a vector "
                f"{name!r}; rename one of them, or declare it in {kind.__name__} too to share it"
            )
    return tuple(names)
