"""Local training of one block of rows: the step that every algorithm shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from flatfed.algorithms import Algorithm
from flatfed.data import augment
from flatfed.engine import interruption
from flatfed.engine.batches import RoundPlan
from flatfed.engine.context import Context
from flatfed.engine.executors import Batch, Executor
from flatfed.engine.streams import stream

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
        images = self.images[index.to(self.images.device)].to(self.mean.device)
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
        losses, gradients = self.executor(w, self.batch)
        if self.losses is None:
            self.losses = losses
        return gradients


@dataclass
class LocalTraining:
    """What one block of local training needs besides its rows: constants of the run."""

    algorithm: Algorithm
    executor: Executor
    data: Resident
    seed: int
    weight_decay: float
    clip_norm: float | None

    def train(
        self, w: Tensor, plan: RoundPlan, ctx: Context, look: Callable[[Tensor | None], None] | None = None
    ) -> Tensor:
        """Run every row's local steps, moving ``w`` (rows, parameters) in place; return the sum of first losses.

        ``look`` is given each step's perturbation, None where there is none, before the models move.

        The sum is over rows and steps, a 0-d tensor left on the device: nothing here waits for the device. Raises
        Stopped between two steps where a signal asks for it, and leaves ``w`` and the rows of ``ctx`` as they are then.
        """
        device = w.device
        index = torch.from_numpy(plan.index).to(device)
        weight = torch.from_numpy(plan.weight).to(device, self.data.dtype)
        draws = None if plan.draws is None else torch.from_numpy(plan.draws).to(device)
        labels = self.data.labels[index]
        total = torch.zeros((), dtype=self.data.dtype, device=device)
        for step in range(plan.length):
            interruption.check()
            rows, width = plan.rows(step), int(plan.width[step])
            batch = Batch(
                self.data.batch(index[:rows, step, :width], None if draws is None else draws[:rows, step, :width]),
                labels[:rows, step, :width],
                weight[:rows, step, :width],
                self._masks(plan.clients[:rows], width, ctx.round, step, device),
            )
            total += self.step(w[:rows], batch, ctx.narrow(rows), look)
        return total

    def step(
        self, w: Tensor, batch: Batch, ctx: Context, look: Callable[[Tensor | None], None] | None = None
    ) -> Tensor:
        """One local step of all rows, in the official order; return the sum over rows of the first loss."""
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
        return gradient.losses.sum()

    def _masks(self, clients, width: int, round_: int, step: int, device: torch.device) -> list[Tensor]:
        """Return the model's scaled dropout masks, each (rows, width, *shape), keyed by (round, client, step)."""
        masks = []
        shapes = self.executor.model.dropout
        generators = [stream(self.seed, "dropout", round_, int(c), step) for c in clients] if shapes else []
        for shape, rate in shapes:
            draws = [torch.from_numpy(g.random((width, *shape), dtype="float32")) for g in generators]
            keep = (torch.stack(draws) >= rate).to(device, self.data.dtype)
            masks.append(keep.div_(1 - rate))
        return masks

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
