"""FL-Simulator before the repair of FedSMOO (commit 653ebb5; repaired in 502bec6)."""

from __future__ import annotations

from flatfed.algorithms._context import Context, Tensor, Vectors
from flatfed.algorithms.as_published.unpacking import heads
from flatfed.algorithms.fedsmoo import FedSMOO


class UnrepairedDual(FedSMOO):
    """Gives every tensor the first coordinates of mu_i and s (erratum B14)."""

    def finish(self, w: Tensor, ctx: Context) -> tuple[Vectors, Vectors]:
        state, uploads = super().finish(w, ctx)  # mu_i is sent before the client's next round reads it
        return {**state, "mu": heads(ctx.client["mu"], ctx.layout)}, uploads

    def aggregate(self, server: Vectors, uploads: Vectors, ctx: Context) -> Vectors:
        changed = super().aggregate(server, uploads, ctx)
        return {**changed, "s": heads(changed["s"], ctx.layout)}
