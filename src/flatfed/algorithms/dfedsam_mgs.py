"""DFedSAM-MGS (Shi et al. 2023, Alg. 1): DFedSAM with Q gossip steps after local training.

    z_i^{q+1} = sum_l w_il z_l^q,  q = 0 .. Q - 1;   x_i <- z_i^Q

Q = 4 (section 5.2). The single mix that Alg. 1 prints is the loop's first step. On a time-varying graph every gossip
step has its own draw (appendix B.4: 10 Q clients without replacement).
"""

from __future__ import annotations

from flatfed.algorithms._context import Context, Mixing, Tensor, Vectors
from flatfed.algorithms._parameters import Whole
from flatfed.algorithms._rows import gossip
from flatfed.algorithms.dfedsam import DFedSAM


class DFedSAMMGS(DFedSAM):
    gossip_steps = Whole(4, "Q: gossip steps a round; 1 is DFedSAM", minimum=1)
    whole_rows = True

    def mix(self, models: Tensor, mixing: Mixing, ctx: Context) -> Vectors:
        """X <- W^(Q-1) ... W^(0) X."""
        for step in range(self.gossip_steps):
            models = gossip(models, mixing(step))
        return {"model": models}
