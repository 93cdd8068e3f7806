"""DFedAvgM (Sun et al. 2022): DFedAvg with heavy-ball momentum in the local steps.

    v <- theta v + d;   x <- x - eta v;   v = 0 at the start of every round

theta = 0.9 (DFedSAM appendix B.3); d is the clipped gradient with weight decay, as in torch's SGD.
"""

from __future__ import annotations

from flatfed.algorithms._context import Context, Tensor
from flatfed.algorithms._parameters import Number
from flatfed.algorithms.dfedavg import DFedAvg


class DFedAvgM(DFedAvg):
    momentum = Number(0.9, "theta: heavy-ball momentum; 0 is DFedAvg", minimum=0, exclusive_maximum=1)
    scratch = ("velocity",)
    own_momentum = True
    whole_rows = True

    def update(self, w: Tensor, d: Tensor, ctx: Context) -> Tensor:
        velocity = ctx.scratch["velocity"].mul_(self.momentum).add_(d)
        return super().update(w, velocity, ctx)
