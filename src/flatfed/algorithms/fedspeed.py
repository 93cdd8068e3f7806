"""FedSpeed (Sun et al. 2023): FedDyn on SAM's gradient, as the official code has it.

    e = rho g(w) / ||g(w)||;   w <- w - eta [g(w + e) + lambda (h_i - w^t) + lambda w];   h_i <- h_i + (w_i - w^t)
    server: w^{t+1} = mean_S w_i + (1/m) sum_{all i} h_i

The paper's clients upload w_i + h_i and the server averages over the active ones: ``average: active_clients``. The
paper's mix of gradients, (1 - alpha) g(w) + alpha g(w + e), has alpha = 1. The default is the official code's mean over
all: FedSMOO's Table 8 (without SAM's correction) is this algorithm with FedSMOO's settings.
"""

from __future__ import annotations

from flatfed.algorithms._context import Context, Tensor, Vectors
from flatfed.algorithms._parameters import Choice, Number
from flatfed.algorithms._sam import SharpnessAware
from flatfed.algorithms.feddyn import FedDyn


class FedSpeed(SharpnessAware, FedDyn):
    rho = Number(0.1, "radius of the perturbation; 0 is FedDyn", minimum=0)
    average = Choice(
        "official_code",
        ("official_code", "active_clients"),
        "h enters as the mean over all, or over active clients",
        "FedSMOO's Table 8 then ablates one code",
    )
    whole_rows = True

    def finish(self, w: Tensor, ctx: Context) -> tuple[Vectors, Vectors]:
        """With active clients, upload w_i + h_i instead of w_i, also for the consistency."""
        state, uploads = super().finish(w, ctx)
        return state, {**uploads, "w": w.add_(state["h"])} if self.average == "active_clients" else uploads

    def evaluated(self, server: Vectors) -> Vectors:
        """With active clients only the server's model: h_i is never separate from w_i."""
        return {"server": server["w"]} if self.average == "active_clients" else super().evaluated(server)

    def aggregate(self, server: Vectors, uploads: Vectors, ctx: Context) -> Vectors:
        if self.average == "active_clients":
            return {"w": uploads["w"].mean(dim=0, keepdim=True)}
        return super().aggregate(server, uploads, ctx)
