"""FedSMOO (Sun et al. 2023, Alg. 1): FedDyn's dual for the weights and a second one for SAM's perturbation.

    u = g(w) - mu_i - s;   e = rho u / ||u||;   mu_i <- mu_i + e - s          (every local step)
    w <- w - eta [g(w + e) + lambda (h_i - w^t) + lambda w]
    server: w as FedDyn;   s = rho mbar / ||mbar||,   s^0 = 0

Parameter ``s``: mbar = mean_S mu_i in the official code, as repaired in FL-Simulator's commit 502bec6 (the default);
mean_S (mu_i - e_{i,K}) in Alg. 1, lines 13 and 17, and in FL-SAM. mu_i persists over rounds. The signs are those of
paper and code; a concave augmented Lagrangian would flip s. rho = 0 is exactly FedDyn.
"""

from __future__ import annotations

from flatfed.algorithms._context import Context, Gradient, Tensor, Vectors
from flatfed.algorithms._parameters import Choice, Number
from flatfed.algorithms._rows import along
from flatfed.algorithms.feddyn import FedDyn


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
        ("paper", "FL-Simulator@653ebb5"),
        "mu_i and s by each tensor's own coordinates, or as that code unpacks them",
    )
    client_state = ("mu",)  # and FedDyn's h, as for server and scratch
    server_state = ("s",)
    scratch = ("e",)
    communication = (2, 2)
    gradients_per_step = 2
    whole_rows = True

    def perturbation(self, w: Tensor, gradient: Gradient, ctx: Context) -> Tensor:
        return along(gradient(w).sub_(ctx.client["mu"]).sub_(ctx.server["s"]), self.rho)

    def update_dual(self, e: Tensor, ctx: Context) -> Vectors:
        if self.s == "paper":
            ctx.scratch["e"].copy_(e)
        return {"mu": ctx.client["mu"].add_(e).sub_(ctx.server["s"])}

    def finish(self, w: Tensor, ctx: Context) -> tuple[Vectors, Vectors]:
        state, uploads = super().finish(w, ctx)
        last = ctx.scratch["e"] if self.s == "paper" else 0
        return state, {**uploads, "mu": ctx.client["mu"] - last}

    def aggregate(self, server: Vectors, uploads: Vectors, ctx: Context) -> Vectors:
        s = along(uploads["mu"].mean(dim=0, keepdim=True), self.rho)
        return {**super().aggregate(server, uploads, ctx), "s": s}
