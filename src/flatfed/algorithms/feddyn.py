"""FedDyn (Acar et al. 2021): a dynamic regulariser makes local optima agree with the global one.

    client: w <- w - eta [g + lambda (h_i - w^t) + lambda w];   h_i <- h_i + (w_i - w^t)
    server: w^{t+1} = mean_S w_i + (1/m) sum_{all i} h_i

h_i = -lambda_i / lambda of the paper's dual. The clip contains the linear half lambda (h_i - w^t), not the quadratic
one. With lambda = 0 the server still adds the mean h. This is the official FedSMOO code; Acar et al. evaluate mean_S
w_i, evaluated here after the last round (``also`` in run.json).
"""

from __future__ import annotations

from flatfed.algorithms._base import Algorithm
from flatfed.algorithms._context import Context, Tensor, Vectors
from flatfed.algorithms._parameters import Choice, Number


class FedDyn(Algorithm):
    penalty = Number(0.1, "lambda = 1/beta: strength of the proximal term", minimum=0)
    regulariser = Choice("paper", ("paper", "FL-SAM@2c16149"), "the proximal term: squared, or the distance itself")
    client_state = ("h",)
    server_state = ("h",)
    scratch = ("pull",)
    whole_rows = True

    @property
    def proximal(self) -> float:
        return self.penalty

    def start(self, w: Tensor, ctx: Context) -> Vectors:
        return {**super().start(w, ctx), "pull": self.penalty * (ctx.client["h"] - ctx.received)}

    def correct(self, g: Tensor, w: Tensor, ctx: Context) -> Tensor:
        return g.add_(ctx.scratch["pull"])

    def finish(self, w: Tensor, ctx: Context) -> tuple[Vectors, Vectors]:
        return {"h": ctx.client["h"].add_(w - ctx.received)}, {}

    def aggregate(self, server: Vectors, uploads: Vectors, ctx: Context) -> Vectors:
        """The server updates the mean of h over all m clients by its changes."""
        mean = uploads["w"].mean(dim=0, keepdim=True)
        h = server["h"].add(mean - server["w"], alpha=len(uploads["w"]) / ctx.client_count)
        return {"w": mean + h, "h": h}

    def evaluated(self, server: Vectors) -> Vectors:
        """The server's model, and the mean of the active clients' models."""
        return {"server": server["w"], "mean": server["w"] - server["h"]}
