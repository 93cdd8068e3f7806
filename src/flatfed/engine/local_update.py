"""The local update of a block of clients: the step that all algorithms share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from flatfed.algorithms import Algorithm
from flatfed.engine.batches import RoundPlan
from flatfed.engine.context import Context, no_draws
from flatfed.engine.executors import Batch, Executor
from flatfed.engine.feed import Feed

CLIP_EPSILON = 1e-6  # as in torch.nn.utils.clip_grad_norm_, which the official code calls


class StepGradient:
    """The gradient of a step's batch; ``losses`` (rows,) are those of its first call."""

    def __init__(self, executor: Executor, batch: Batch):
        self.executor = executor
        self.batch = batch
        self.losses: Tensor | None = None

    def __call__(self, w: Tensor) -> Tensor:
        losses, gradients = self.executor.step(w, self.batch)
        if self.losses is None:
            self.losses = losses
        return gradients


@dataclass
class LocalUpdate:
    """Runs the local steps of the rows that train together.

    ``pause``: called before every step; may raise. ``together``: number of runs that train together, None if this one
    trains alone. The folder ``speed`` has wrappers with the same methods.
    """

    together: ClassVar[int | None] = None

    algorithm: Algorithm
    executor: Executor
    feed: Feed
    weight_decay: float
    clip_norm: float | None
    pause: Callable[[], None]

    def run(self, w: Tensor, plan: RoundPlan, ctx: Context) -> Tensor:
        """Run the local steps of all rows of ``w`` (rows, parameters), in place; return the sums of their losses.

        The sums (rows,) are over the first loss of every step. They stay on the device, so that nothing waits for it.
        """
        ctx = replace(ctx, uniform=no_draws, _narrowed={})
        dealt, keys = self.feed.dealt(plan, w.device), self.feed.keys(plan, w.device)
        total = torch.zeros(len(w), dtype=self.feed.data.dtype, device=w.device)
        for step in range(plan.length):
            self.pause()
            rows = plan.rows(step)
            width = dealt[0].shape[2] if self.executor.whole else int(plan.width[step])
            part = [values[:rows, step, :width] for values in dealt]
            batch = self.feed.batch(part, None if keys is None else keys[:rows, step])
            total[:rows] += self.step(w[:rows], batch, ctx.narrow(rows))
        return total

    def step(self, w: Tensor, batch: Batch, ctx: Context) -> Tensor:
        """Run one local step of all rows, in the official order; return the first losses (rows,)."""
        gradient = StepGradient(self.executor, batch)
        e = self.algorithm.perturbation(w, gradient, ctx)
        if e is None:
            g = gradient(w)
        else:
            self.algorithm.update_dual(e, ctx)
            g = gradient(w + e)
        d = self.algorithm.correct(g, w, ctx)
        shared = d[:, : self.executor.layout.size]  # private coordinates follow: neither clipped nor decayed
        if self.clip_norm is not None:
            norm = shared.norm(dim=1, keepdim=True)
            shared.mul_((self.clip_norm / (norm + CLIP_EPSILON)).clamp_(max=1.0))
        shrink = self.weight_decay + self.algorithm.proximal
        if shrink:
            shared.add_(w[:, : shared.shape[1]], alpha=shrink)
        self.algorithm.update(w, d, ctx)
        return gradient.losses

    @property
    def plain(self) -> LocalUpdate:
        """The local update without wrappers."""
        return self

    def release(self) -> None:
        """Free the memory that is kept from round to round: here none."""
