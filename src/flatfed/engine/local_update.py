"""The local step that all algorithms share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from flatfed.algorithms import Algorithm
from flatfed.algorithms._context import Context, no_draws
from flatfed.engine import dropout, hooks
from flatfed.engine.batches import RoundPlan
from flatfed.engine.executors import Batch, Executor
from flatfed.engine.resident import Resident
from flatfed.runs.run_config import RunConfig

MOMENTUM = "sgd_momentum"  # the scratch vector of momentum
CLIP_EPSILON = 1e-6  # as in torch.nn.utils.clip_grad_norm_, which the official code calls


def round_number(ctx: Context, device: torch.device) -> Tensor:
    """Return the number of the round as a local step sees it, which may be recorded."""
    return torch.full((), float(ctx.round), dtype=torch.float64, device=device)


@dataclass
class LocalUpdate:
    """Runs the local steps of the rows that train together. Wrappers in ``speed`` have the same methods.

    ``pause``: called before every step; may raise. ``local`` (n,): coordinates of the local parameters, if any.
    """

    algorithm: Algorithm
    executor: Executor
    data: Resident
    config: RunConfig
    pause: Callable[[], None]
    local: Tensor | None = None

    def run(self, w: Tensor, plan: RoundPlan, ctx: Context) -> Tensor:
        """Run the local steps of ``w`` (rows, parameters) in place; return the sums (rows,) of each step's first loss.

        The sums stay on the device, so nothing waits for it.
        """
        ctx = replace(ctx, uniform=no_draws, round=round_number(ctx, w.device), _narrowed={})
        inputs = self.data.inputs(plan)
        total = torch.zeros(len(w), dtype=self.data.dtype, device=w.device)
        for step in range(plan.length):
            self.pause()
            rows = plan.rows(step)
            if ctx.step is not None:
                ctx.step.fill_(step)
            width = None if self.executor.together else int(plan.width[step])
            batch = self.batch({name: values[:rows, step] for name, values in inputs.items()}, width)
            total[:rows] += self.step(w[:rows], batch, ctx.narrow(rows))
        return total

    def batch(self, inputs: dict[str, Tensor], width: int | None = None) -> Batch:
        """Return the batch of a step's ``inputs``, each (rows, B, ...), narrowed to ``width`` images."""
        keys, sites = inputs.get("keys"), self.executor.model.dropout
        index, labels, weight, *draws = (values[:, :width] for name, values in inputs.items() if name != "keys")
        masks = [] if keys is None else dropout.masks(keys, sites, index.shape[1], self.data.dtype)
        return Batch(self.data.batch(index, *draws), labels, weight, masks)

    def step(self, w: Tensor, batch: Batch, ctx: Context) -> Tensor:
        """Run one local step of all rows, in the order of the official code; return the first losses (rows,)."""
        algorithm, losses = self.algorithm, []
        second = algorithm.second_model(ctx)
        if second is not None:
            batch = replace(batch, second=second.expand(len(w), -1))
        batch = replace(batch, buffers=ctx._buffers)

        def gradient(w: Tensor) -> Tensor:
            versions, passed = batch.versions(), batch
            if losses and batch.buffers is not None and self.config.batch_norm_second_pass is False:
                passed = replace(batch, buffers=batch.buffers.clone())
            loss, gradients = self.executor(w, passed)
            if versions != batch.versions():
                hooks.refuse_changed_batch(algorithm)
            losses.append(loss)
            return gradients

        e = algorithm.perturbation(w, gradient, ctx)
        if e is None:
            g = gradient(w)
        else:
            hooks.checked(algorithm.perturbation, e, w)
            hooks.write(algorithm.update_dual, algorithm.update_dual(e, ctx), ctx.client, "client_state")
            g = gradient(w + e)
        hooks.check_gradients(algorithm, len(losses))
        d = hooks.checked(algorithm.correct, algorithm.correct(g, w, ctx), w)
        self.move(w, d, ctx)
        return losses[0]

    def move(self, w: Tensor, d: Tensor, ctx: Context) -> None:
        """Move ``w`` in place along the corrected gradient ``d``: local parameters by a hook of their own, if any."""
        hook = self.algorithm.update_local
        if self.local is None or not hooks.overrides(self.algorithm, "update_local"):
            self.descend(w, d.contiguous(), ctx)
            return
        local = w[:, self.local]
        moved = hooks.checked(hook, hook(local, d[:, self.local], ctx), local)
        self.descend(w, d.index_fill(1, self.local, 0), ctx)
        w[:, self.local] = moved

    def descend(self, w: Tensor, d: Tensor, ctx: Context) -> None:
        """Clip the direction ``d``, add decay and momentum, and move ``w`` in place.

        ``d`` may be a vector of the context and stays as it is.
        """
        if self.config.clip_norm is not None:
            norm = d.norm(dim=1, keepdim=True)
            d = d * (self.config.clip_norm / (norm + CLIP_EPSILON)).clamp_(max=1.0)
        shrink = self.config.weight_decay + self.algorithm.proximal
        if shrink:
            # A clipped direction is a new tensor, and another one costs as much as the addition.
            add = d.add if self.config.clip_norm is None else d.add_
            d = add(w, alpha=shrink)
        if self.config.momentum:
            d = ctx.scratch[MOMENTUM].mul_(self.config.momentum).add_(d).clone()
        moved = hooks.checked(self.algorithm.update, self.algorithm.update(w, d, ctx), w)
        if moved is not w:
            w.copy_(moved)

    @property
    def plain(self) -> LocalUpdate:
        return self
