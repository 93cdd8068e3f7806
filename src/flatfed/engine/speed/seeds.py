"""Seeds as rows: runs that differ in their seed alone train their clients together, in one process.

Every run goes through its rounds as it would by itself, in a thread of its own, with its own folder, checkpoint and
metrics. Local training is where they meet: whoever gets there waits for the others, then all rows of all of them are
trained as one block, each with its own seed's server vectors, learning rate and dropout. One thread runs at a time, so
nothing else changes; runs that are not in the same round, since one of them was stopped earlier, meet all the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from flatfed.engine import batches
from flatfed.engine.context import Context
from flatfed.engine.local import LocalTraining, Look
from flatfed.engine.speed.recording import CONSTANTS, arguments_of
from flatfed.engine.transfer import sent

if TYPE_CHECKING:
    from flatfed.engine.batches import RoundPlan
    from flatfed.engine.resident import Resident
    from flatfed.engine.simulation import Simulation


@dataclass
class Waiting:
    """A run that has come to its local training: its rows, and in the end its ``losses`` or the ``error``."""

    w: Tensor
    plan: RoundPlan
    ctx: Context
    losses: Tensor | None = None
    error: BaseException | None = None


class Meeting:
    """Where ``expected`` runs on the same data train their rows together; the first one's executor does it."""

    def __init__(self, expected: int):
        self.expected = expected
        self.turn = threading.Condition()
        self.data: Resident | None = None
        self.local: LocalTraining | None = None
        self.sessions: list[dict[str, Any]] = []
        self.waiting: list[Waiting] = []

    def join(self, run: Simulation, session: dict[str, Any] | None = None) -> None:
        """Have ``run`` train here, on the first one's images, and its ``session`` say together with how many.

        By itself, on the same images, where its executor takes one client at a time or is not that of those who meet,
        as where a run goes on with another one: what trained it is part of a run.
        """
        self.data = self.data or run.data
        run.data.images, run.data.labels = self.data.images, self.data.labels
        if run.executor.block is not None:
            return
        alone = run.local.alone if isinstance(run.local, Joined) else run.local  # it may have met others before
        self.local = self.local or alone
        if run.executor.name == self.local.executor.name:
            run.local = Joined(alone, self)
            self.sessions.append({} if session is None else session)
            for known in self.sessions:
                known["together"] = len(self.sessions)

    def train(self, w: Tensor, plan: RoundPlan, ctx: Context) -> Tensor:
        """Do what :meth:`flatfed.engine.local.LocalTraining.train` does, together with the runs that still go on."""
        me = Waiting(w, plan, ctx)
        self.waiting.append(me)
        while me.losses is None and me.error is None:
            if len(self.waiting) == self.expected:
                self._train()
                self.turn.notify_all()
            else:
                self.turn.wait()
        if me.error is not None:
            raise me.error
        return me.losses

    def leave(self) -> None:
        """Do not wait any more for a run that has ended."""
        self.expected -= 1
        self.turn.notify_all()

    def _train(self) -> None:
        """Train all that wait; whatever goes wrong goes wrong for every one of them."""
        present, self.waiting = self.waiting, []
        try:
            losses = merged(self.local, present)
        except BaseException as error:  # every run answers to it by itself, as to one of its own; none waits for ever
            for waiting in present:
                waiting.error = error
        else:
            for waiting, own in zip(present, losses, strict=True):
                waiting.losses = own


class Joined(LocalTraining):
    """Local training of a run at a ``meeting``; ``alone`` is how it would train by itself."""

    def __init__(self, alone: LocalTraining, meeting: Meeting):
        super().__init__(**arguments_of(alone))
        self.alone, self.meeting = alone, meeting

    def release(self) -> None:
        """Give back what is kept for all who meet."""
        self.meeting.local.release()

    def train(self, w: Tensor, plan: RoundPlan, ctx: Context, look: Look | None = None) -> Tensor:
        """Train together with the others, but alone where somebody is to ``look``."""
        return self.meeting.train(w, plan, ctx) if look is None else self.alone.train(w, plan, ctx, look)


def merged(local: LocalTraining, present: Sequence[Waiting]) -> list[Tensor]:
    """Train the rows of all that are ``present`` as one block; return each one's sums of losses."""
    if len(present) == 1:
        (alone,) = present
        return [local.train(alone.w, alone.plan, alone.ctx)]
    counts = [len(waiting.w) for waiting in present]
    plan, order = batches.merged([waiting.plan for waiting in present])
    places = sent(order, present[0].w.device)
    ctx, w = context(present, places), torch.cat([waiting.w for waiting in present])[places]
    losses = local.train(w, plan, ctx)
    back = places.argsort()
    for waiting, own in zip(present, back.split(counts), strict=True):
        waiting.w.copy_(w[own])
        for kind in ("client", "scratch"):
            for name, values in getattr(waiting.ctx, kind).items():
                values.copy_(getattr(ctx, kind)[name][own])
    return [losses[own] for own in back.split(counts)]


def context(present: Sequence[Waiting], order: Tensor) -> Context:
    """Return the context of all rows of ``present``, in ``order`` (rows,): every vector has a row for each."""
    contexts = [waiting.ctx for waiting in present]
    first = contexts[0]

    def rows(values: Callable[[Context], Tensor | None]) -> Tensor | None:
        if values(first) is None:
            return None
        return torch.cat([values(ctx).expand(len(ctx.steps), -1) for ctx in contexts])[order]

    def named(kind: str) -> dict[str, Tensor]:
        return {name: rows(lambda ctx, name=name: getattr(ctx, kind)[name]) for name in getattr(first, kind)}

    def uniform(draw: int, shape: tuple[int, ...]) -> Tensor:
        return torch.cat([ctx.uniform(draw, shape) for ctx in contexts])[order]

    server = named("server")
    return replace(
        first,
        w=server["w"] if first.w is first.server["w"] else rows(lambda ctx: ctx.w),
        server=server,
        client=named("client"),
        scratch=named("scratch"),
        lr=rows(lambda ctx: ctx.lr.view(1, 1)),
        **{name: rows(lambda ctx, name=name: getattr(ctx, name)) for name in CONSTANTS},
        full_gradient=None,  # which no step may ask for
        uniform=uniform,
        _narrowed={},
    )
