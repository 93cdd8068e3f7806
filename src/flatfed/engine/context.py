"""What an algorithm's hooks are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from flatfed.data.streams import stream
from flatfed.engine.full_gradient import full_gradient
from flatfed.engine.layout import Layout
from flatfed.engine.transfer import sent

if TYPE_CHECKING:
    from flatfed.engine.simulation import Simulation


class Gradient(Protocol):
    """Gradient of the current step's batch: rows (rows, parameters) -> mean cross-entropy gradients, same shape.

    The returned matrix belongs to the caller until the next call. The same batch, augmentation and dropout masks serve
    every call of a step.
    """

    def __call__(self, w: Tensor) -> Tensor: ...


@dataclass
class Context:
    """State and constants of the rows that train together.

    ``w`` (1, parameters) the received model w^t, or (rows, parameters) where every client has its own; ``server`` name
    -> (1, parameters); ``client`` and ``scratch`` name -> (rows, parameters), changed in place; ``lr`` 0-d tensor.
    Where rows of several seeds train together, ``w``, ``server`` and ``lr`` (rows, 1) have one for each.
    ``steps`` (rows, 1) true local steps K_i, ``nominal_steps`` (rows, 1) E n_0 / B; ``round`` from 0 of ``rounds``;
    ``clients`` the number m of all clients; ``layout`` of a row; ``full_gradient(w)`` the rows' gradient on all of
    their client's data, unaugmented; ``uniform(draw, shape)`` keyed draws in [0, 1), shape (rows, *shape), the same
    whatever rows train beside them. For an algorithm that remembers: ``previous`` (rows, parameters) the model that
    each client received when it last took part, w^t where it never has; ``participated`` (rows, 1) 1 where it has, else
    0. ``local`` (rows, parameters), within a step: the models as they stand, to be read only.
    """

    w: Tensor
    server: dict[str, Tensor]
    client: dict[str, Tensor]
    scratch: dict[str, Tensor]
    lr: Tensor
    steps: Tensor
    nominal_steps: Tensor
    round: int
    rounds: int
    clients: int
    layout: Layout
    full_gradient: Callable[[Tensor], Tensor] | None = None
    uniform: Callable[[int, tuple[int, ...]], Tensor] | None = None
    previous: Tensor | None = None
    participated: Tensor | None = None
    local: Tensor | None = None
    _narrowed: dict[int, Context] = field(default_factory=dict, repr=False)

    def narrow(self, rows: int) -> Context:
        """Return the context of the first ``rows`` rows: views of the same state."""
        if rows == len(self.steps):
            return self
        if rows not in self._narrowed:
            uniform = self.uniform
            self._narrowed[rows] = replace(
                self,
                w=_first(self.w, rows),
                server={name: _first(value, rows) for name, value in self.server.items()},
                client={name: value[:rows] for name, value in self.client.items()},
                scratch={name: value[:rows] for name, value in self.scratch.items()},
                lr=self.lr if self.lr.ndim == 0 else self.lr[:rows],
                steps=self.steps[:rows],
                nominal_steps=self.nominal_steps[:rows],
                uniform=None if uniform is None else lambda draw, shape: uniform(draw, shape)[:rows],
                previous=None if self.previous is None else self.previous[:rows],
                participated=None if self.participated is None else self.participated[:rows],
                _narrowed={},
            )
        return self._narrowed[rows]


def _first(values: Tensor, rows: int) -> Tensor:
    """Return the first ``rows`` rows of ``values``, or the one that is all rows'."""
    return values if len(values) == 1 else values[:rows]


def context_of(
    run: Simulation, clients: np.ndarray, rate: Tensor, rows: dict[str, Tensor] | None, *, scratch: bool = False
) -> Context:
    """Return what hooks are given in the coming round of ``run``: for local training of ``clients`` with ``scratch``.

    ``rate`` the learning rate; ``rows`` the state of ``clients``, None at the server.
    """
    round_, size = run.round, run.layout.size
    sizes = run.sizes[clients].tolist()

    def column(values: list[float]) -> Tensor:
        return sent(torch.tensor(values, dtype=run.dtype), run.device)[:, None]

    def gradient_on_all(w: Tensor) -> Tensor:
        return full_gradient(run, w, [sent(run.members[c], run.device) for c in clients[: len(w)]])

    def uniform(draw: int, shape: tuple[int, ...]) -> Tensor:
        draws = [stream(run.seed, "algorithm", round_, int(c), draw).random(shape) for c in clients]
        return sent(np.stack(draws), run.device, run.dtype)

    return Context(
        w=run.server["w"],
        server=run.server,
        client=rows or {},
        scratch={
            name: torch.zeros(len(clients), size, dtype=run.dtype, device=run.device)
            for name in (run.algorithm.scratch if scratch else ())
        },
        lr=rate,
        steps=column([run.schedule.count(count) for count in sizes]),
        nominal_steps=column([run.schedule.nominal(int(run.sizes[0]))] * len(sizes)),
        round=round_,
        rounds=run.description["rounds"],
        clients=run.clients,
        layout=run.layout,
        full_gradient=gradient_on_all if scratch else None,
        uniform=uniform,
    )
