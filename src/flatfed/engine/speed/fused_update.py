"""The end of a local step in one pass over the weights, on a GPU."""

from __future__ import annotations

import torch
from torch import Tensor

from flatfed.algorithms import Algorithm
from flatfed.engine.context import Context
from flatfed.engine.local_update import CLIP_EPSILON, LocalUpdate
from flatfed.engine.speed import row_layers


class FusedUpdate(LocalUpdate):
    """For algorithms whose ``update`` is FedAvg's: clips, decays and moves float32 rows together."""

    def descend(self, w: Tensor, d: Tensor, ctx: Context) -> None:
        size = self.executor.layout.size
        fused = w.is_cuda and w.dtype == torch.float32 and w.shape[1] == size and ctx.lr.numel() == 1
        if "descend" not in row_layers.FORMS or not fused or type(self.algorithm).update is not Algorithm.update:
            super().descend(w, d, ctx)
            return
        from flatfed.engine.speed import kernels

        factors = w.new_ones(len(w))
        if self.clip_norm is not None:
            factors = (self.clip_norm / (d.norm(dim=1) + CLIP_EPSILON)).clamp_(max=1.0)
        kernels.descend(w, d, factors, ctx.lr, self.weight_decay + self.algorithm.proximal, size)
