"""Runs that differ only in their seed train their clients together, in one process.

Each run has a thread and goes through its rounds as it would alone. At local training it waits for the others; all rows
then train as one block, each with its seed's server vectors, learning rate and dropout. Only one thread runs at a time.
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
from flatfed.engine.transfer import to_device

if TYPE_CHECKING:
    from flatfed.engine.batches import RoundPlan
    from flatfed.engine.local_update import LocalUpdate
    from flatfed.engine.resident import Resident
    from flatfed.engine.speed.recording import Recorded


@dataclass
class Waiting:
    """A run at its local update, afterwards with its ``losses`` or an ``error``."""

    w: Tensor
    plan: RoundPlan
    ctx: Context
    losses: Tensor | None = None
    error: BaseException | None = None


class Meeting:
    """Trains the rows of ``expected`` runs on the same ``data`` with the local update of the first run.

    ``members``: number of runs that train here.
    """

    def __init__(self, expected: int):
        self.expected, self.members = expected, 0
        self.turn = threading.Condition()
        self.data: Resident | None = None
        self.local_update: LocalUpdate | Recorded | None = None
        self.waiting: list[Waiting] = []

    def share(self, data: Resident) -> Resident:
        self.data = self.data or data
        return self.data

    def join(self, local_update: LocalUpdate | Recorded) -> LocalUpdate | Recorded | Meeting:
        """Return this meeting, or ``local_update`` if its executor differs or takes one client at a time."""
        executor = local_update.plain.executor
        self.local_update = self.local_update or (local_update if executor.block is None else None)
        if self.local_update is None or executor.name != self.local_update.plain.executor.name:
            return local_update
        self.members += 1
        if self.local_update is not local_update:
            self.local_update.largest += local_update.largest
        return self

    def run(self, w: Tensor, plan: RoundPlan, ctx: Context) -> Tensor:
        run = Waiting(w, plan, ctx)
        self.waiting.append(run)
        while run.losses is None and run.error is None:
            if len(self.waiting) == self.expected:
                self._run_all()
                self.turn.notify_all()
            else:
                self.turn.wait()
        if run.error is not None:
            raise run.error
        return run.losses

    def release(self) -> int:
        return self.local_update.release()

    def leave(self) -> None:
        self.expected -= 1
        self.turn.notify_all()

    def _run_all(self) -> None:
        """Train all waiting runs; pass an error to each of them, so none waits forever."""
        runs, self.waiting = self.waiting, []
        try:
            losses = train_merged(self.local_update, runs)
        except BaseException as error:
            for run in runs:
                run.error = error
        else:
            for run, sums in zip(runs, losses, strict=True):
                run.losses = sums


class Joined:
    """A local update that joins the ``meeting`` in its first round, when no other simulation can replace it."""

    def __init__(self, alone: LocalUpdate | Recorded, meeting: Meeting):
        self.alone, self.meeting = alone, meeting
        self.plain = alone.plain

    @cached_property
    def trainer(self) -> LocalUpdate | Recorded | Meeting:
        return self.meeting.join(self.alone)

    @property
    def together(self) -> int | None:
        """Number of runs that train together, None before the first round and for a run alone."""
        return self.meeting.members if vars(self).get("trainer") is self.meeting else None

    def run(self, w: Tensor, plan: RoundPlan, ctx: Context) -> Tensor:
        return self.trainer.run(w, plan, ctx)

    def release(self) -> int:
        return vars(self).get("trainer", self.alone).release()


def train_merged(local_update: LocalUpdate | Recorded, runs: Sequence[Waiting]) -> list[Tensor]:
    """Train the rows of all ``runs`` as one block; return each run's sums of losses."""
    if len(runs) == 1:
        (alone,) = runs
        return [local_update.run(alone.w, alone.plan, alone.ctx)]
    plan, numbers = batches.merge_plans([run.plan for run in runs])
    order = to_device(numbers, runs[0].w.device)
    ctx, w = merged_context(runs, order), torch.cat([run.w for run in runs])[order]
    losses = local_update.run(w, plan, ctx)
    rows_of_runs = order.argsort().split([len(run.w) for run in runs])
    for run, rows in zip(runs, rows_of_runs, strict=True):
        run.w.copy_(w[rows])
        for kind in ("client", "scratch"):
            for name, values in getattr(run.ctx, kind).items():
                values.copy_(getattr(ctx, kind)[name][rows])
    return [losses[rows] for rows in rows_of_runs]


def merged_context(runs: Sequence[Waiting], order: Tensor) -> Context:
    """Return the context of all rows of ``runs`` in ``order`` (rows,): every vector has one row per client."""
    contexts = [run.ctx for run in runs]
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
