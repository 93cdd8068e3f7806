"""Local steps recorded once and replayed: on a GPU, CUDA graphs, which launch a step's kernels all at once.

A recording reads and writes fixed places in memory. So a block of rows is copied into buffers, trained there, and
copied back: some copies of the rows a round, against the thousand kernel launches of a step. One recording is made for
every number of rows that train together, since rows whose client has fewer steps end early; batches have their full
size, what a ragged one lacks has weight 0. What a step may not do is in :mod:`flatfed.algorithms._base`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flatfed.engine.context import no_draws

if TYPE_CHECKING:
    from flatfed.engine.batches import RoundPlan
    from flatfed.engine.context import Context
    from flatfed.engine.local_update import LocalUpdate

Work = Callable[[], None]
Recorder = Callable[[Work], Work]

CONSTANTS = ("steps", "nominal_steps")  # of a context, a row each
WARM_UP = 2  # steps before a recording, in which libraries choose their kernels and reserve their memory


class CudaGraphs:
    """Records work on a GPU as CUDA graphs that share one pool of memory: nothing lives in it between two replays.

    Work is recorded on the stream on which it was done before: what libraries keep for every stream (cuBLAS its
    workspaces) is there then, and does not come to lie in the graphs' pool.
    """

    def __init__(self, device: torch.device):
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.graphs: weakref.WeakSet[torch.cuda.CUDAGraph] = weakref.WeakSet()

    def __call__(self, work: Work) -> Work:
        """Return what does ``work`` again; it is run ``WARM_UP`` times before."""
        main, graph = torch.cuda.current_stream(self.device), torch.cuda.CUDAGraph()
        # That of graphs that are all gone cannot be used again: torch refuses a pool that nobody holds.
        pool = next((other.pool() for other in self.graphs), None)
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):  # left in any case, where a recording that fails does not leave it
            for _ in range(WARM_UP):
                work()
            with torch.cuda.graph(graph, pool=pool, stream=self.stream):
                work()
        main.wait_stream(self.stream)
        self.graphs.add(graph)
        return graph.replay


def recorder(device: torch.device) -> Recorder:
    """Return what records on ``device``; a CPU has no graphs, there the work itself is done again."""
    return CudaGraphs(device) if device.type == "cuda" else lambda work: work


class Recorded:
    """A ``plain`` local update whose steps are recorded, one for every number of rows, on buffers (capacity, ...)."""

    together = None

    def __init__(self, plain: LocalUpdate, record: Recorder):
        self.plain, self.record = plain, record
        self.release()

    def release(self) -> None:
        """Drop all recordings and the memory that they hold; the next block of rows makes new ones."""
        self.steps: dict[int, Work] = {}
        self.capacity, self.common = 0, True
        self.w = self.total = self.ctx = None
        self.buffers, self.drawn = [], None

    def run(self, w: Tensor, plan: RoundPlan, ctx: Context) -> Tensor:
        """Run the local steps (:meth:`flatfed.engine.local_update.LocalUpdate.run`) by replaying recorded ones."""
        feed = self.plain.feed
        n, dealt, keys = len(w), feed.dealt(plan, w.device), feed.keys(plan, w.device)
        self._reserve(w, dealt, keys, ctx)
        # A recorder may run the steps, so the rows are loaded after it.
        for rows in sorted({plan.rows(step) for step in range(plan.length)}):
            if rows not in self.steps:
                self.steps[rows] = self.record(partial(self._step, rows))
        rows_of = [(self.w, w), *_pairs(self.ctx.client, ctx.client), *_pairs(self.ctx.scratch, ctx.scratch)]
        for buffer, values in (*rows_of, *self._constants(ctx)):
            buffer[: len(values)].copy_(values)
        self.total.zero_()
        for step in range(plan.length):
            self.plain.pause()
            rows = plan.rows(step)
            for buffer, values in zip(self.buffers, dealt, strict=True):
                buffer[:rows].copy_(values[:rows, step])
            if keys is not None:
                self.drawn[:rows].copy_(keys[:rows, step])
            self.steps[rows]()
        for buffer, values in rows_of:
            values.copy_(buffer[:n])
        return self.total[:n].clone()

    def _step(self, rows: int) -> None:
        batch = self.plain.feed.batch(
            [part[:rows] for part in self.buffers], None if self.drawn is None else self.drawn[:rows]
        )
        self.total[:rows].add_(self.plain.step(self.w[:rows], batch, self.ctx.narrow(rows)))

    def _constants(self, ctx: Context) -> list[tuple[Tensor, Tensor]]:
        """Return (buffer, values of ``ctx``) of what local steps only read."""
        pairs = [(getattr(self.ctx, name), getattr(ctx, name)) for name in CONSTANTS]
        pairs += [(self.ctx.lr.view(-1), ctx.lr.view(-1)), *_pairs(self.ctx.server, ctx.server)]
        if ctx.received is not ctx.server["w"]:
            pairs.append((self.ctx.received, ctx.received))
        return pairs

    def _reserve(self, w: Tensor, dealt: list[Tensor], keys: Tensor | None, ctx: Context) -> None:
        """Have buffers for the rows ``w``; recordings made for fewer, or for one server of all rows, are void."""
        common = len(ctx.server["w"]) == 1
        if len(w) <= self.capacity and common == self.common:
            return
        capacity = max(len(w), self.capacity)
        self.release()

        def buffer(values: Tensor, skipped: int = 1) -> Tensor:
            return torch.zeros(capacity, *values.shape[skipped:], dtype=values.dtype, device=w.device)

        self.w, self.total = buffer(w), w.new_zeros(capacity)
        self.buffers = [buffer(values, 2) for values in dealt]
        self.drawn = None if keys is None else buffer(keys, 2)
        server = {name: torch.zeros_like(v) if common else buffer(v) for name, v in ctx.server.items()}
        self.ctx = replace(
            ctx,
            received=server["w"] if ctx.received is ctx.server["w"] else buffer(ctx.received),
            server=server,
            client={name: buffer(values) for name, values in ctx.client.items()},
            scratch={name: buffer(values) for name, values in ctx.scratch.items()},
            lr=torch.zeros_like(ctx.lr) if common else buffer(ctx.lr),
            **{name: buffer(getattr(ctx, name)) for name in CONSTANTS},
            uniform=no_draws,
            _narrowed={},
        )
        self.common, self.capacity = common, capacity


def _pairs(buffers: dict[str, Tensor], values: dict[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
    return [(buffers[name], value) for name, value in values.items()]
