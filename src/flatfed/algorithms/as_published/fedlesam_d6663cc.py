"""The code published with FedLESAM (commit d6663cc)."""

from __future__ import annotations

from flatfed.algorithms._context import Context, Tensor
from flatfed.algorithms._lesam import LocallyEstimated
from flatfed.algorithms._rows import EPSILON
from flatfed.algorithms.mofedsam import MoFedSAM


class UnweightedGradient(MoFedSAM):
    """MoFedSAM without alpha for the gradient: g(w + e) + (1 - alpha) Delta."""

    whole_rows = True

    def correct(self, g: Tensor, w: Tensor, ctx: Context) -> Tensor:
        return g.add_(ctx.server["direction"], alpha=1 - self.alpha)


class ByTensorNumber(LocallyEstimated):
    """Indexes the flat direction d by the tensor's number: tensor k moves by the scalar rho d_k / sum_j |d_j|.

    j runs up to the number of tensors. On a ResNet-18 ||e|| is about sixty rho.
    """

    radius = 0.0  # depends on the model

    def scaled(self, direction: Tensor, ctx: Context) -> Tensor:
        values = direction[:, : len(ctx.layout.names)]
        unpacked = direction.new_empty(direction.shape)
        for number, part in enumerate(ctx.layout.slices().values()):
            unpacked[:, part] = values[:, number, None]
        return unpacked * (self.rho / (values.abs().sum(dim=1, keepdim=True) + EPSILON))
