"""FedMoSWA (Liu et al. 2025): FedSWA, and control variates c_i (clients) around a momentum m (server).

    client: w <- w - eta_k (g - c_i + m);   c_i^+ = c_i - m + (w^t - w_i) / sum_k eta_k
    server: w as FedSWA;   m <- m + gamma mean_S (c_i^+ - m)

sum_k eta_k = eta (K (1 + rho) + 1 - rho) / 2, so c_i^+ is the client's mean gradient; early steps weigh more. If all
clients take part, gamma = rho = alpha = 1 is SCAFFOLD. The first public code (FedSWA@298c917) has eta K (1 + rho) / 2
for the sum and gamma = 0.1; f725be9 has rho = alpha = 1 and gamma = 0.4. In both, the first m is the mean of c_i^+, and
the clip does not see the control variates.
"""

from __future__ import annotations

from flatfed.algorithms._context import Context, Tensor, Vectors
from flatfed.algorithms._parameters import Number
from flatfed.algorithms.fedswa import FedSWA
from flatfed.algorithms.scaffold import Scaffold


class FedMoSWA(FedSWA, Scaffold):
    steps = "paper"  # the schedule has K steps
    adaptation = Number(0.2, "gamma: share of m that is new in each round", minimum=0, maximum=1)
    whole_rows = True

    def step_count(self, ctx: Context) -> Tensor:
        """Return sum_k eta_k / eta, shape (rows, 1)."""
        return (ctx.steps * (1 + self.last_rate) + 1 - self.last_rate) / 2

    def finish(self, w: Tensor, ctx: Context) -> tuple[Vectors, Vectors]:
        """Upload c_i^+."""
        state, _ = super().finish(w, ctx)
        return state, state

    def aggregate(self, server: Vectors, uploads: Vectors, ctx: Context) -> Vectors:
        m = server["c"].lerp(uploads["c"].mean(dim=0, keepdim=True), self.adaptation)
        return {**FedSWA.aggregate(self, server, uploads, ctx), "c": m}
