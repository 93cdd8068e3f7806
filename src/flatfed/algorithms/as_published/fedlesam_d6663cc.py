"""The code published with FedLESAM (commit d6663cc)."""

from __future__ import annotations

from flatfed.algorithms._context import Context, Tensor
from flatfed.algorithms._lesam import LocallyEstimated
from flatfed.algorithms.as_published.unpacking import by_tensor_number
from flatfed.algorithms.mofedsam import MoFedSAM


class UnweightedGradient(MoFedSAM):
    """MoFedSAM without alpha for the gradient: g(w + e) + (1 - alpha) Delta."""

    whole_rows = True

    def correct(self, g: Tensor, w: Tensor, ctx: Context) -> Tensor:
        return g.add_(ctx.server["direction"], alpha=1 - self.alpha)


class ByTensorNumber(LocallyEstimated):
    """Indexes the flat direction by the tensor's number."""

    radius = 0.0  # depends on the model

    def scaled(self, direction: Tensor, ctx: Context) -> Tensor:
        return by_tensor_number(direction, ctx.layout, self.rho)
