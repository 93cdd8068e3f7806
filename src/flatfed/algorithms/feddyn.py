"""FedDyn (Acar et al. 2021): a dynamic regulariser makes local optima agree with the global one.

    client: w <- w - eta [g + lambda (h_i - w^t) + lambda w];   h_i <- h_i + (w_i - w^t)
    server: w^{t+1} = mean_S w_i + (1/m) sum_{all i} h_i

h_i = -lambda_i / lambda of the paper's dual. The clip contains the linear half lambda (h_i - w^t), not the quadratic
one. With lambda = 0 the server still adds the mean h. This is the official FedSMOO code; Acar et al. evaluate mean_S
w_i, evaluated here after the last round (``also`` in run.json).

``regulariser: FL-SAM@2c16149`` has (lambda/2) ||w - w^t||, not squared, in the loss, so its pull towards w^t has the
constant length lambda/2 (0 at the start) and is inside the clip. So do its FedSpeed, FedSMOO and FedLESAM-D, whose
initial w has a rounding error that torch turns into such a pull; FlatFed omits this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flatfed.algorithms._base import Algorithm
from flatfed.algorithms._claims import Claims
from flatfed.algorithms._parameters import Choice, Number
from flatfed.algorithms._rows import unit

if TYPE_CHECKING:
    from torch import Tensor

    from flatfed.engine.context import Context


NOT_SQUARED = "FL-SAM@2c16149"


class FedDyn(Algorithm):
    penalty = Number(0.1, "lambda = 1/beta: strength of the proximal term", minimum=0)
    regulariser = Choice(
        "paper",
        ("paper", NOT_SQUARED),
        "the proximal term: squared, or the distance itself",
    )
    client_state = ("h",)
    server_state = ("h",)
    scratch = ("pull",)
    whole_rows = True
    claims = Claims(ends_at="optimum")

    @property
    def proximal(self) -> float:
        return 0.0 if self.regulariser == NOT_SQUARED else self.penalty

    def start(self, w: Tensor, ctx: Context) -> None:
        super().start(w, ctx)
        pull = ctx.client["h"] if self.regulariser == NOT_SQUARED else ctx.client["h"] - ctx.received
        ctx.scratch["pull"].copy_(self.penalty * pull)

    def correct(self, g: Tensor, w: Tensor, ctx: Context) -> Tensor:
        if self.regulariser == NOT_SQUARED:
            g.add_(unit(w - ctx.received), alpha=self.penalty / 2)
        return g.add_(ctx.scratch["pull"])

    def finish(self, w: Tensor, ctx: Context) -> dict[str, Tensor]:
        ctx.client["h"].add_(w - ctx.received)
        return {}

    def aggregate(self, server: dict[str, Tensor], uploads: dict[str, Tensor], ctx: Context) -> None:
        """The server updates the mean of h over all m clients by its changes."""
        mean = uploads["w"].mean(dim=0, keepdim=True)
        server["h"].add_(mean - server["w"], alpha=len(uploads["w"]) / ctx.client_count)
        server["w"].copy_(mean + server["h"])

    def evaluated(self, server: dict[str, Tensor]) -> dict[str, Tensor]:
        """The server's model, and the mean of the active clients' models."""
        return {"server": server["w"], "mean": server["w"] - server["h"]}
