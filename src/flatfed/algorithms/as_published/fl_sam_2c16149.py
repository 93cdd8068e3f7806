"""FL-SAM (commit 2c16149), and FedScar (d347eeb) for all three forms of FedLESAM."""

from __future__ import annotations

from flatfed.algorithms._context import Context, Tensor, Vectors
from flatfed.algorithms._lesam import LocallyEstimated
from flatfed.algorithms._rows import unit
from flatfed.algorithms.as_published.unpacking import heads
from flatfed.algorithms.feddyn import FedDyn


class DistanceNotSquared(FedDyn):
    """FedDyn with (lambda/2) ||w - w^t||, not squared, in the loss.

    Its pull towards w^t has the constant length lambda/2 (0 at the start) and is inside the clip. FL-SAM has it in
    FedSpeed, FedSMOO and FedLESAM-D, too. Their initial w has a rounding error that torch turns into such a pull;
    FlatFed omits this.
    """

    whole_rows = True
    proximal = 0.0

    def start(self, w: Tensor, ctx: Context) -> Vectors:
        return {**super().start(w, ctx), "pull": self.penalty * ctx.client["h"]}

    def correct(self, g: Tensor, w: Tensor, ctx: Context) -> Tensor:
        return super().correct(g.add_(unit(w - ctx.received), alpha=self.penalty / 2), w, ctx)


class FirstCoordinates(LocallyEstimated):
    """FedLESAM along the server's step, in which each tensor of n coordinates has the first n, scaled to rho."""

    def scaled(self, direction: Tensor, ctx: Context) -> Tensor:
        return super().scaled(heads(direction, ctx.layout), ctx)
