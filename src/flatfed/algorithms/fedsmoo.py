"""FedSMOO (Sun et al. 2023, Alg. 1): FedDyn's dual for the weights and a second one for SAM's perturbation.

    u = g(w) - mu_i - s;   e = rho u / ||u||;   mu_i <- mu_i + e - s          (every local step)
    w <- w - eta [g(w + e) + lambda (h_i - w^t) + lambda w]
    server: w as FedDyn;   s = rho mbar / ||mbar||,   s^0 = 0

Parameter ``s``: mbar = mean_S mu_i in the official code, as repaired in FL-Simulator's commit 502bec6 (the default);
mean_S (mu_i - e_{i,K}) in Alg. 1, lines 13 and 17, and in FL-SAM. Before the repair that code gave every tensor the
first coordinates of mu_i and s (erratum B14): ``unpacking: FL-Simulator@653ebb5``. mu_i persists over rounds. The signs
are those of paper and code; a concave augmented Lagrangian would flip s. rho = 0 is exactly FedDyn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flatfed.algorithms._claims import Claims, Reduction
from flatfed.algorithms._parameters import Choice, Number
from flatfed.algorithms._rows import along
from flatfed.algorithms._unpacking import heads
from flatfed.algorithms.feddyn import FedDyn

if TYPE_CHECKING:
    from torch import Tensor

    from flatfed.engine.context import Context, Gradient


UNREPAIRED = "FL-Simulator@653ebb5"


class FedSMOO(FedDyn):
    rho = Number(0.1, "radius of the perturbation (the paper's r)", minimum=0)
    s = Choice(
        "official_code",
        ("official_code", "paper"),
        "the global perturbation from mu_i alone, or from mu_i minus the last perturbation",
        "what the authors' code runs, as repaired in FL-Simulator@502bec6; they call the other term small",
    )
    unpacking = Choice(
        "paper",
        ("paper", UNREPAIRED),
        "mu_i and s by each tensor's own coordinates, or as that code unpacks them",
        by_coordinate=(UNREPAIRED,),
    )
    client_state = ("mu",)  # and FedDyn's h, as for server and scratch
    server_state = ("s",)
    scratch = ("e",)
    communication = (2, 2)
    gradients_per_step = 2
    whole_rows = True
    claims = Claims((Reduction({"rho": 0.0}, "feddyn"),), ends_at="optimum", per_rho=4.0)

    def perturbation(self, w: Tensor, gradient: Gradient, ctx: Context) -> Tensor:
        return along(gradient(w).sub_(ctx.client["mu"]).sub_(ctx.server["s"]), self.rho)

    def update_dual(self, e: Tensor, ctx: Context) -> None:
        ctx.client["mu"].add_(e).sub_(ctx.server["s"])
        if self.s == "paper":
            ctx.scratch["e"].copy_(e)

    def finish(self, w: Tensor, ctx: Context) -> dict[str, Tensor]:
        super().finish(w, ctx)
        last = ctx.scratch["e"] if self.s == "paper" else 0
        sent = ctx.client["mu"] - last  # a copy: mu_i may be a view of the store
        if self.unpacking == UNREPAIRED:  # as the client's next round reads it
            ctx.client["mu"].copy_(heads(ctx.client["mu"], ctx.layout))
        return {"mu": sent}

    def aggregate(self, server: dict[str, Tensor], uploads: dict[str, Tensor], ctx: Context) -> None:
        super().aggregate(server, uploads, ctx)
        s = along(uploads["mu"].mean(dim=0, keepdim=True), self.rho)
        server["s"].copy_(heads(s, ctx.layout) if self.unpacking == UNREPAIRED else s)
