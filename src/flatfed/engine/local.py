"""Local training of one block of rows: the step that every algorithm shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from flatfed.algorithms import Algorithm
from flatfed.engine.batches import RoundPlan
from flatfed.engine.context import Context
from flatfed.engine.executors import Batch, Executor
from flatfed.engine.feed import Feed

CLIP_EPSILON = 1e-6  # torch.nn.utils.clip_grad_norm_, which the official code calls

#: What is given every step's perturbation, None where there is none, before the models move.
Look = Callable[[Tensor | None], None]


class StepGradient:
    """The step's gradient as algorithms see it; remembers the losses (rows,) of the first call."""

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
class LocalTraining:
    """What one block of local training needs besides its rows: constants of the run.

    ``pause`` is called between two steps, and may raise: the models are then left as they are.
    """

    algorithm: Algorithm
    executor: Executor
    feed: Feed
    weight_decay: float
    clip_norm: float | None
    pause: Callable[[], None]

    def train(self, w: Tensor, plan: RoundPlan, ctx: Context, look: Look | None = None) -> Tensor:
        """Run every row's local steps, moving ``w`` (rows, parameters) in place; return each row's sum of first losses.

        The sums (rows,) are over steps, and left on the device: nothing here waits for it.
        """
        dealt, keys = self.feed.dealt(plan, w.device), self.feed.keys(plan, w.device)
        total = torch.zeros(len(w), dtype=self.feed.data.dtype, device=w.device)
        for step in range(plan.length):
            self.pause()
            rows = plan.rows(step)
            width = dealt[0].shape[2] if self.executor.whole else int(plan.width[step])
            part = [values[:rows, step, :width] for values in dealt]
            batch = self.feed.batch(part, None if keys is None else keys[:rows, step])
            total[:rows] += self.step(w[:rows], batch, ctx.narrow(rows), look)
        return total

    def release(self) -> None:
        """Give back the memory that is kept from round to round: here none."""

    def step(self, w: Tensor, batch: Batch, ctx: Context, look: Look | None = None) -> Tensor:
        """One local step of all rows, in the official order; return the first losses (rows,)."""
        ctx.local, gradient = w, StepGradient(self.executor, batch)
        e = self.algorithm.perturbation(w, gradient, ctx)
        if look is not None:
            look(e)
        g = gradient(w if e is None else w + e)
        d = self.algorithm.correct(g, ctx)
        shared = d[:, : self.executor.layout.size]  # what lies behind is private: neither clipped nor decayed
        if self.clip_norm is not None:
            norm = shared.norm(dim=1, keepdim=True)
            shared.mul_((self.clip_norm / (norm + CLIP_EPSILON)).clamp_(max=1.0))
        shrink = self.weight_decay + self.algorithm.proximal
        if shrink:
            shared.add_(w[:, : shared.shape[1]], alpha=shrink)
        self.algorithm.update(w, d, ctx)
        return gradient.losses
