"""The end of a local step in one pass over the weights, on a GPU."""

from __future__ import annotations

from torch import Tensor

from flatfed.algorithms import Algorithm
from flatfed.algorithms._context import Context
from flatfed.engine.local_update import CLIP_EPSILON, LocalUpdate
from flatfed.engine.speed.acceleration import kernels_for


class FusedUpdate(LocalUpdate):
    """Clips, decays and moves the rows together if the algorithm's ``update`` is FedAvg's."""

    def descend(self, w: Tensor, d: Tensor, ctx: Context) -> None:
        kernels, size = kernels_for(w, "update_kernel"), self.executor.layout.size
        # Private coordinates are neither clipped nor decayed.
        # Not the class's update: an instance may set its own, and a probe wraps the algorithm.
        update = getattr(self.algorithm.update, "__func__", None)
        plain = w.shape[1] == size and update is Algorithm.update and not self.momentum
        if not kernels or not plain:
            super().descend(w, d, ctx)
            return
        factors = w.new_ones(len(w))
        if self.clip_norm is not None:
            factors = (self.clip_norm / (d.norm(dim=1) + CLIP_EPSILON)).clamp_(max=1.0)
        kernels.descend(w, d, factors, ctx.lr, self.weight_decay + self.algorithm.proximal)
