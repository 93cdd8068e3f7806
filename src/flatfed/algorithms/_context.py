"""The context of an algorithm's hooks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

from flatfed.algorithms._layout import Layout
from flatfed.errors import FlatFedError

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any  # reading a configuration does not import torch

#: Rows (rows, parameters) -> gradients of the mean cross-entropy, same shape. All calls of a step use the same batch,
#: augmentation and dropout masks. The caller may change the result until the next call.
Gradient = Callable[[Tensor], Tensor]
#: Name -> rows (rows, parameters), or (1, parameters) of the server.
Vectors = Mapping[str, Tensor]
#: Gossip step -> W (clients, clients).
Mixing = Callable[[int], Tensor]


def no_draws(draw: int, shape: tuple[int, ...]) -> Tensor:
    """Refuse random numbers in a local step, which may be recorded."""
    raise FlatFedError("ctx.uniform: a local step may not draw; draw in `start`, into a vector of ctx.scratch")


class ReadOnly(dict):
    """Name -> tensor: hooks may change the tensors, but not the mapping."""

    def _refuse(self, *values: Any, **named: Any) -> NoReturn:
        code = sys._getframe(1).f_code
        remedy = 'return {"name": value} from a hook that returns vectors, or change it in place: ["name"].copy_(value)'
        problem = f"assigns to a mapping of ctx, which is read-only; declare the vector, then {remedy}"
        raise FlatFedError(f"{code.co_filename}: {code.co_qualname}: {problem}")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse


@dataclass
class Context:
    """State and constants of the rows that train together.

    ``received``: the received model w^t, ``server["w"]`` (1, parameters) itself; (rows, parameters) without a server or
    with local parameters, here the client's own. ``server``: name -> (1, parameters), scalars (1, 1). ``client``,
    ``scratch``: name -> (rows, parameters), empty in ``aggregate``. The mappings are read-only. ``lr``: 0-d tensor.
    ``step``: 0-d tensor, the number of the local step from 0, if the algorithm declares ``counts_steps``. ``steps``
    (rows, 1): K_i. ``nominal_steps`` (rows, 1): E n_0 / B, the official code's K. ``round``, from 0, of ``rounds``;
    in a local step a 0-d tensor. ``client_count``: all m clients. ``uniform(draw, shape)``: random numbers in [0, 1),
    shape (rows, *shape), keyed by seed, round, client and ``draw``; not in a local step.
    """

    received: Tensor
    server: Vectors
    client: Vectors
    scratch: Vectors
    lr: Tensor
    step: Tensor | None
    steps: Tensor
    nominal_steps: Tensor
    round: int | Tensor
    rounds: int
    client_count: int
    layout: Layout
    uniform: Callable[[int, tuple[int, ...]], Tensor]
    _buffers: Tensor | None = field(default=None, repr=False)  # (rows, size) of BatchNorm, for the executor alone
    _narrowed: dict[int, Context] = field(default_factory=dict, repr=False)

    def __post_init__(self):
        for kind in ("server", "client", "scratch"):
            setattr(self, kind, ReadOnly(getattr(self, kind)))

    def narrow(self, rows: int) -> Context:
        """Return the context of the first ``rows`` rows, as views."""
        if rows == len(self.steps):
            return self
        if rows not in self._narrowed:
            self._narrowed[rows] = self.mapped(lambda values: values[:rows], lambda values: values)
        return self._narrowed[rows]

    def mapped(self, rows: Callable[[Tensor], Tensor], shared: Callable[[Tensor], Tensor]) -> Context:
        """Return a local step's context: ``rows`` of vectors with a row per client, ``shared`` of the server's."""
        server = {name: shared(values) for name, values in self.server.items()}
        return replace(
            self,
            received=server["w"] if self.received is self.server["w"] else rows(self.received),
            server=server,
            client={name: rows(values) for name, values in self.client.items()},
            scratch={name: rows(values) for name, values in self.scratch.items()},
            lr=shared(self.lr),
            step=None if self.step is None else shared(self.step),
            steps=rows(self.steps),
            nominal_steps=rows(self.nominal_steps),
            uniform=no_draws,
            _buffers=None if self._buffers is None else rows(self._buffers),
            _narrowed={},
        )
