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
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flatfed.engine import batches
from flatfed.engine.context import Context, no_draws
from flatfed.engine.transfer import sent

if TYPE_CHECKING:
    from flatfed.engine.batches import RoundPlan
    from flatfed.engine.local_update import LocalUpdate
    from flatfed.engine.resident import Resident
    from flatfed.engine.speed.recording import Recorded


@dataclass
class Waiting:
    """A run that has reached its local update: its rows, and in the end its ``losses`` or the ``error``."""

    w: Tensor
    plan: RoundPlan
    ctx: Context
    losses: Tensor | None = None
    error: BaseException | None = None


class Meeting:
    """Trains the rows of ``expected`` runs on the same data together, by the local update of the first one.

    ``data``: the images of the first run, for all. ``members``: number of runs that train here.
    """

    def __init__(self, expected: int):
        self.expected, self.members = expected, 0
        self.turn = threading.Condition()
        self.data: Resident | None = None
        self.local_update: LocalUpdate | Recorded | None = None
        self.waiting: list[Waiting] = []

    def share(self, data: Resident) -> Resident:
        """Return the images of the first run, which ``data`` equals."""
        self.data = self.data or data
        return self.data

    def join(self, local_update: LocalUpdate | Recorded) -> LocalUpdate | Recorded | Meeting:
        """Return what runs the steps of ``local_update``: this meeting, or itself if the executor differs.

        An executor that takes one client at a time runs alone, too.
        """
        executor = local_update.plain.executor
        self.local_update = self.local_update or (local_update if executor.block is None else None)
        if self.local_update is None or executor.name != self.local_update.plain.executor.name:
            return local_update
        self.members += 1
        return self

    def run(self, w: Tensor, plan: RoundPlan, ctx: Context) -> Tensor:
        """Do what ``LocalUpdate.run`` does, together with the runs that are not finished."""
        present = Waiting(w, plan, ctx)
        self.waiting.append(present)
        while present.losses is None and present.error is None:
            if len(self.waiting) == self.expected:
                self._run_all()
                self.turn.notify_all()
            else:
                self.turn.wait()
        if present.error is not None:
            raise present.error
        return present.losses

    def release(self) -> None:
        """Free the memory that is kept for all runs."""
        self.local_update.release()

    def leave(self) -> None:
        """Stop waiting for a run that has ended."""
        self.expected -= 1
        self.turn.notify_all()

    def _run_all(self) -> None:
        """Train all waiting runs; pass an error to each of them, so that none waits for ever."""
        present, self.waiting = self.waiting, []
        try:
            losses = merged(self.local_update, present)
        except BaseException as error:
            for waiting in present:
                waiting.error = error
        else:
            for waiting, sums in zip(present, losses, strict=True):
                waiting.losses = sums


class Joined:
    """A local update that meets those of other seeds; it joins the ``meeting`` in its first round.

    Not earlier: a damaged checkpoint can replace a simulation before its first round.
    """

    def __init__(self, alone: LocalUpdate | Recorded, meeting: Meeting):
        self.alone, self.meeting = alone, meeting
        self.plain = alone.plain

    @cached_property
    def trainer(self) -> LocalUpdate | Recorded | Meeting:
        """The meeting, or the run's own local update."""
        return self.meeting.join(self.alone)

    @property
    def together(self) -> int | None:
        """Number of runs that train together, None before the first round and if this one trains alone."""
        return self.meeting.members if vars(self).get("trainer") is self.meeting else None

    def run(self, w: Tensor, plan: RoundPlan, ctx: Context) -> Tensor:
        """Run the local steps together with the other runs."""
        return self.trainer.run(w, plan, ctx)

    def release(self) -> None:
        """Free the memory that is kept from round to round."""
        self.trainer.release()


def merged(local_update: LocalUpdate | Recorded, present: Sequence[Waiting]) -> list[Tensor]:
    """Train the rows of all ``present`` runs as one block; return the sums of losses of each."""
    if len(present) == 1:
        (alone,) = present
        return [local_update.run(alone.w, alone.plan, alone.ctx)]
    counts = [len(waiting.w) for waiting in present]
    plan, order = batches.merged([waiting.plan for waiting in present])
    places = sent(order, present[0].w.device)
    ctx, w = context(present, places), torch.cat([waiting.w for waiting in present])[places]
    losses = local_update.run(w, plan, ctx)
    rows_of_runs = places.argsort().split(counts)
    for waiting, rows in zip(present, rows_of_runs, strict=True):
        waiting.w.copy_(w[rows])
        for kind in ("client", "scratch"):
            for name, values in getattr(waiting.ctx, kind).items():
                values.copy_(getattr(ctx, kind)[name][rows])
    return [losses[rows] for rows in rows_of_runs]


def context(present: Sequence[Waiting], order: Tensor) -> Context:
    """Return the context of all rows of ``present``, in ``order`` (rows,): every vector has a row for each."""
    contexts = [waiting.ctx for waiting in present]
    first = contexts[0]

    def rows(values: Callable[[Context], Tensor]) -> Tensor:
        return torch.cat([values(ctx).expand(len(ctx.steps), -1) for ctx in contexts])[order]

    def named(kind: str) -> dict[str, Tensor]:
        return {name: rows(lambda ctx, name=name: getattr(ctx, kind)[name]) for name in getattr(first, kind)}

    server = named("server")
    return replace(
        first,
        received=server["w"] if first.received is first.server["w"] else rows(lambda ctx: ctx.received),
        server=server,
        client=named("client"),
        scratch=named("scratch"),
        lr=rows(lambda ctx: ctx.lr.view(1, 1)),
        steps=rows(lambda ctx: ctx.steps),
        nominal_steps=rows(lambda ctx: ctx.nominal_steps),
        uniform=no_draws,
        _narrowed={},
    )
