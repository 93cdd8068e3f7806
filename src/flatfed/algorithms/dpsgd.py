"""D-PSGD (Lian et al. 2017): every node mixes its neighbours' models and adds its local step.

    x_i <- sum_l w_il x_l + (x_i^K - x_i),   x_i^K after local steps from x_i

With one step this is x_i <- sum_l w_il x_l - eta g_i(x_i). DFedSAM trains one epoch a round (appendix B.3). The code
published with DisPFL mixes first, then trains: ``order: official_code``.
"""

from __future__ import annotations

from typing import Any

from flatfed.algorithms._base import Algorithm
from flatfed.algorithms._context import Context, Mixing, Tensor, Vectors
from flatfed.algorithms._parameters import Choice
from flatfed.algorithms._rows import gossip


class DPSGD(Algorithm):
    order = Choice(
        "paper",
        ("paper", "official_code"),
        "mix the old models and add the step, or mix, then train",
        "the paper's is D-PSGD as defined",
    )
    decentralised = True
    client_state = ("step",)
    whole_rows = True

    def __init__(self, **values: Any):
        super().__init__(**values)
        if self.mix_first:
            self.client_state = ()  # nodes mix trained models, so there is no step to keep

    @property
    def mix_first(self) -> bool:
        return self.order == "official_code"

    def finish(self, w: Tensor, ctx: Context) -> tuple[Vectors, Vectors]:
        return {} if self.mix_first else {"step": w - ctx.received}, {}

    def mix(self, models: Tensor, mixing: Mixing, ctx: Context) -> Vectors:
        """X <- W X + steps; ``models`` include their steps, which are 0 for a node that did not train."""
        if self.mix_first:
            return super().mix(models, mixing, ctx)
        steps = ctx.client["step"]
        models = gossip(models.sub_(steps), mixing(0)).add_(steps)
        return {"model": models, "step": steps.zero_()}
