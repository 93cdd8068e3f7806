"""Recorded local steps and evaluations, with a fused end of a step.

On a GPU, CUDA graphs launch all kernels of a step at once.

A recording uses fixed memory, so a block of rows is copied into buffers, trained there and copied back. Each number of
rows that train together has a recording. Batches have their full size; padding has weight 0.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from flatfed.algorithms import Algorithm
from flatfed.algorithms._context import Context
from flatfed.engine.batches import RoundPlan
from flatfed.engine.evaluate import Score
from flatfed.engine.local_update import CLIP_EPSILON, LocalUpdate, round_number
from flatfed.engine.speed.acceleration import kernels_for
from flatfed.errors import FlatFedError

Work = Callable[[], None]
Recorder = Callable[[Work], Work]

WARM_UP = 2  # steps in which libraries choose kernels and reserve memory


class CudaGraphs:
    """Records work as CUDA graphs that share one memory pool.

    Work warms up on the recording's stream, so the memory that cuBLAS keeps per stream does not come from the pool.
    """

    def __init__(self, device: torch.device):
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.graphs: weakref.WeakSet[torch.cuda.CUDAGraph] = weakref.WeakSet()

    def __call__(self, work: Work) -> Work:
        """Return a replay of ``work``, which runs ``WARM_UP`` times first."""
        main, graph = torch.cuda.current_stream(self.device), torch.cuda.CUDAGraph()
        # A graph must hold the pool: torch refuses the pool of deleted graphs.
        pool = next((existing.pool() for existing in self.graphs), None)
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):  # a failed recording alone would not leave the stream
            for _ in range(WARM_UP):
                work()
            try:
                with torch.cuda.graph(graph, pool=pool, stream=self.stream):
                    work()
            except RuntimeError as error:
                if "captur" not in str(error):
                    raise
                reason = str(error).strip().splitlines()[0]
                remedy = "do not branch on values of tensors in hooks and models, or use `executor: sequential`"
                raise FlatFedError(f"a step cannot be recorded ({reason}); {remedy}") from error
        main.wait_stream(self.stream)
        self.graphs.add(graph)
        return graph.replay


class FusedUpdate(LocalUpdate):
    """Clips, decays and moves the rows in one pass on a GPU if the algorithm's ``update`` is FedAvg's."""

    def descend(self, w: Tensor, d: Tensor, ctx: Context) -> None:
        kernels = kernels_for(w, "update_kernel")
        # Not the class's update: an instance may set its own.
        update = getattr(self.algorithm.update, "__func__", None)
        plain = update is Algorithm.update and not self.config.momentum
        if not kernels or not plain:
            super().descend(w, d, ctx)
            return
        factors = w.new_ones(len(w))
        if self.config.clip_norm is not None:
            factors = (self.config.clip_norm / (d.norm(dim=1) + CLIP_EPSILON)).clamp_(max=1.0)
        kernels.descend(w, d, factors, ctx.lr, self.config.weight_decay + self.algorithm.proximal)


class Recorded:
    """A ``plain`` local update with recorded steps, one per number of rows, on buffers (capacity, ...).

    ``largest``: the expected number of rows; a larger one drops all recordings.
    """

    capacity = 0

    def __init__(self, plain: LocalUpdate, record: Recorder, largest: int = 0):
        self.plain, self.record, self.largest = plain, record, largest
        self.steps: dict[int, Work] = {}

    def run(self, w: Tensor, plan: RoundPlan, ctx: Context) -> Tensor:
        n, inputs = len(w), self.plain.data.inputs(plan)
        self._reserve(w, inputs, ctx)
        # A recorder may run the steps, so load the rows afterwards.
        for rows in sorted({plan.rows(step) for step in range(plan.length)}):
            if rows not in self.steps:
                self.steps[rows] = self.record(partial(self._step, rows))
        rows_of = [(self.w, w), *_pairs(self.ctx.client, ctx.client), *_pairs(self.ctx.scratch, ctx.scratch)]
        for buffer, values in (*rows_of, *self._constants(ctx)):
            buffer[: len(values)].copy_(values)
        self.ctx.round.fill_(ctx.round)
        self.total.zero_()
        for step in range(plan.length):
            self.plain.pause()
            rows = plan.rows(step)
            if self.ctx.step is not None:
                self.ctx.step.fill_(step)
            for buffer, values in _pairs(self.inputs, inputs):
                buffer[:rows].copy_(values[:rows, step])
            self.steps[rows]()
        for buffer, values in rows_of:
            values.copy_(buffer[:n])
        return self.total[:n].clone()

    def _step(self, rows: int) -> None:
        batch = self.plain.batch({name: buffer[:rows] for name, buffer in self.inputs.items()})
        self.total[:rows].add_(self.plain.step(self.w[:rows], batch, self.ctx.narrow(rows)))

    def _constants(self, ctx: Context) -> list[tuple[Tensor, Tensor]]:
        """Return (buffer, values) of all that steps only read."""
        pairs = [(self.ctx.steps, ctx.steps), (self.ctx.nominal_steps, ctx.nominal_steps)]
        pairs += [(self.ctx.lr.view(-1), ctx.lr.view(-1)), *_pairs(self.ctx.server, ctx.server)]
        if ctx.received is not ctx.server["w"]:
            pairs.append((self.ctx.received, ctx.received))
        return pairs

    def _reserve(self, w: Tensor, inputs: dict[str, Tensor], ctx: Context) -> None:
        """Reserve buffers for the rows ``w``; drop recordings for fewer rows."""
        if len(w) <= self.capacity:
            return
        capacity = max(len(w), self.largest)
        self.steps, self.w, self.total, self.ctx, self.inputs = {}, None, None, None, None  # free their memory first

        def buffer(values: Tensor, skipped: int = 1) -> Tensor:
            return torch.zeros(capacity, *values.shape[skipped:], dtype=values.dtype, device=w.device)

        self.w, self.total = buffer(w), w.new_zeros(capacity)
        self.inputs = {name: buffer(values, 2) for name, values in inputs.items()}
        self.ctx, self.capacity = ctx.mapped(buffer, torch.zeros_like), capacity
        self.ctx.round = round_number(ctx, w.device)


class RecordedScore:
    """A ``plain`` score whose work on the image ``sets``, index tensors (n,), is recorded once.

    It pauses once per evaluation, not before each batch.
    """

    def __init__(self, plain: Score, record: Recorder, sets: list[Tensor]):
        self.plain, self.record, self.sets = plain, record, sets
        self.recordings: dict[int, tuple[Work, Tensor, list[Tensor]]] = {}

    def __call__(self, row: Tensor, index: Tensor, buffers: Tensor | None = None) -> tuple[Tensor, Tensor]:
        number = next((number for number, images in enumerate(self.sets) if images is index), None)
        if number is None:
            return self.plain(row, index, buffers)
        if number not in self.recordings:
            buffer, results = row.clone(), []

            def work() -> None:
                results[:] = self.plain(buffer, index)

            self.recordings[number] = self.record(work), buffer, results
        replay, buffer, results = self.recordings[number]
        self.plain.pause()
        buffer.copy_(row)
        replay()
        return results[0], results[1]


def _pairs(buffers: dict[str, Tensor], values: dict[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
    return [(buffers[name], value) for name, value in values.items()]
