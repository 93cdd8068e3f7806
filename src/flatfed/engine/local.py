"""Local training of one block of rows: the step that every algorithm shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from flatfed.algorithms import Algorithm
from flatfed.data import augment
from flatfed.engine import dropout, interruption
from flatfed.engine.batches import RoundPlan
from flatfed.engine.context import Context
from flatfed.engine.executors import Batch, Executor
from flatfed.engine.recording import Recording
from flatfed.engine.together import Meeting
from flatfed.engine.transfer import sent

CLIP_EPSILON = 1e-6  # torch.nn.utils.clip_grad_norm_, which the official code calls


@dataclass
class Resident:
    """The whole dataset on the device: ``images`` (N, C, H, W) uint8, ``labels`` (N,), normalised on the fly.

    Images may lie on the host instead (:func:`placed`); batches of them are then gathered there.
    """

    images: Tensor
    labels: Tensor
    mean: Tensor
    std: Tensor
    dtype: torch.dtype
    scheme: str

    def batch(self, index: Tensor, draws: Tensor | None = None) -> Tensor:
        """Return normalised images (*index.shape, C, H, W), augmented where ``draws`` are given."""
        scheme = self.scheme if draws is not None else "none"
        images = self.images[index.to(self.images.device)]
        if images.device != self.mean.device:
            images = sent(images, self.mean.device)
        return augment.batch(images, self.mean, self.std, draws, scheme, self.dtype)


def placed(images: np.ndarray, device: torch.device) -> Tensor:
    """Return ``images`` on ``device``; on the host, memory-mapped, if they take over half of a GPU's free memory."""
    found = torch.from_numpy(np.asarray(images))
    if device.type == "cuda" and images.nbytes > torch.cuda.mem_get_info(device)[0] // 2:
        return found
    return found.to(device)


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
    """What one block of local training needs besides its rows: constants of the run."""

    algorithm: Algorithm
    executor: Executor
    data: Resident
    weight_decay: float
    clip_norm: float | None
    recording: Recording | None = None
    meeting: Meeting | None = None

    def train(
        self, w: Tensor, plan: RoundPlan, ctx: Context, look: Callable[[Tensor | None], None] | None = None
    ) -> Tensor:
        """Run every row's local steps, moving ``w`` (rows, parameters) in place; return each row's sum of first losses.

        ``look`` is given each step's perturbation, None where there is none, before the models move.

        The sums (rows,) are over steps, and left on the device: nothing here waits for it. Raises Stopped between two
        steps where a signal asks for it, and leaves ``w`` and the rows of ``ctx`` as they are then.
        """
        if self.meeting is not None and look is None:
            return self.meeting.train(w, plan, ctx)
        return self.alone(w, plan, ctx, look)

    def alone(
        self, w: Tensor, plan: RoundPlan, ctx: Context, look: Callable[[Tensor | None], None] | None = None
    ) -> Tensor:
        """Do what :meth:`train` does, without rows of other seeds beside these."""
        if self.recording is not None and look is None:
            return self.recording.train(self, w, plan, ctx)
        dealt, keys = self.dealt(plan, w.device), self.keys(plan, w.device)
        total = torch.zeros(len(w), dtype=self.data.dtype, device=w.device)
        for step in range(plan.length):
            interruption.check()
            rows = plan.rows(step)
            width = dealt[0].shape[2] if self.executor.whole else int(plan.width[step])
            batch = self.batch(
                [part[:rows, step, :width] for part in dealt], None if keys is None else keys[:rows, step]
            )
            total[:rows] += self.step(w[:rows], batch, ctx.narrow(rows), look)
        return total

    def dealt(self, plan: RoundPlan, device: torch.device) -> list[Tensor]:
        """Return index, labels, weights and, where images are augmented, draws of a round, each (rows, K, B, ...).

        The index lies where the images are, the others on ``device``.
        """
        index = sent(plan.index, device)
        weight = sent(plan.weight, device, self.data.dtype)
        draws = [] if plan.draws is None else [sent(plan.draws, device)]
        there = self.data.images.device.type == device.type
        return [index if there else torch.from_numpy(plan.index), self.data.labels[index], weight, *draws]

    def keys(self, plan: RoundPlan, device: torch.device) -> Tensor | None:
        """Return the keys (rows, K, sites, 2) of a round's dropout masks, None where there are none."""
        return None if plan.keys is None else sent(plan.keys, device)

    def batch(self, dealt: list[Tensor], keys: Tensor | None) -> Batch:
        """Return the batch of one step's part of :meth:`dealt`, each (rows, B, ...), and :meth:`keys`."""
        index, labels, weight, *draws = dealt
        masks = [] if keys is None else self.masks(keys, index.shape[1])
        return Batch(self.data.batch(index, *draws), labels, weight, masks)

    def masks(self, keys: Tensor, width: int) -> list[Tensor]:
        """Return the model's scaled dropout masks (rows, ``width``, *shape) of one step's ``keys`` (rows, sites, 2)."""
        return dropout.masks(keys, self.executor.model.dropout, width, self.data.dtype)

    def step(
        self, w: Tensor, batch: Batch, ctx: Context, look: Callable[[Tensor | None], None] | None = None
    ) -> Tensor:
        """One local step of all rows, in the official order; return the first losses (rows,)."""
        gradient = StepGradient(self.executor, batch)
        e = self.algorithm.perturbation(w, gradient, ctx)
        if look is not None:
            look(e)
        g = gradient(w if e is None else w + e)
        d = self.algorithm.correct(g, ctx)
        size = self.executor.layout.size
        shared = d[:, :size]  # what lies behind is private to the client: neither clipped nor decayed
        if self.clip_norm is not None:
            norm = shared.norm(dim=1, keepdim=True)
            shared.mul_((self.clip_norm / (norm + CLIP_EPSILON)).clamp_(max=1.0))
        shrink = self.weight_decay + self.algorithm.proximal
        if shrink:
            shared.add_(w[:, :size], alpha=shrink)
        self.algorithm.update(w, d, ctx)
        return gradient.losses

    def full_gradient(self, w: Tensor, members: list[Tensor], batch_size: int) -> Tensor:
        """Return the rows' gradients (rows, parameters) of the mean loss on all images of their clients.

        ``members`` one index tensor (n_i,) a row; unaugmented, without dropout; in pieces of ``batch_size``.
        """
        gradients = torch.zeros_like(w)
        for row, own in enumerate(members):
            for part in own.split(batch_size):
                interruption.check()
                weights = torch.full((1, len(part)), 1 / len(own), dtype=self.data.dtype, device=w.device)
                batch = Batch(self.data.batch(part)[None], self.data.labels[part][None], weights, [])
                gradients[row] += self.executor(w[row : row + 1], batch)[1][0]
        return gradients
