"""FedWMSAM (Li et al. 2025, Alg. 1): FedCM's momentum, corrected for each client, which also gives SAM's direction.

    Delta_i = Delta + alpha / (1 - alpha) (c - c_i)
    client: e = rho delta / ||delta||,   delta = w^t + k Delta_i - w   (local step k = 0, 1, ...)
            w <- w - eta [alpha g(w + e) + (1 - alpha) Delta_i];   c_i^+ = c_i - c - (w_i - w^t) / (K eta)
    server: w, Delta as FedCM;   c <- c + (1/m) sum_S (c_i^+ - c_i)
            alpha <- (1 - lambda) alpha + lambda clip(a, 0.1, 0.9)

One gradient a step; the first one is not perturbed. a is 1 + the mean cosine of w_i - w^t and the last Delta, as in the
official code: little weight for the fresh gradient while clients follow the momentum. The paper prints a without the 1,
which is negative then and holds alpha at 0.1 (``target: paper``), and c_i for c - c_i. FedCM is c_i = 0, rho = 0,
lambda = 0.
"""

from __future__ import annotations

from flatfed.algorithms._context import Context, Gradient, Tensor, Vectors
from flatfed.algorithms._parameters import Choice, Number
from flatfed.algorithms._rows import along, unit
from flatfed.algorithms.fedcm import FedCM


class FedWMSAM(FedCM):
    alpha = Number(0.1, "first weight of the fresh gradient", exclusive_minimum=0, exclusive_maximum=1)
    rho = Number(0.1, "radius of the perturbation", minimum=0)
    adaptation = Number(0.01, "lambda: share of alpha that is new in each round", minimum=0, maximum=1)
    target = Choice(
        "official_code",
        ("official_code", "paper"),
        "alpha follows 1 + the cosine of updates and momentum, or the cosine",
        "the printed cosine would hold alpha at its least value",
    )
    unpacking = Choice(
        "paper",
        ("paper", "FedWMSAM@a922a1d"),
        "e by each tensor's own coordinates, uphill, or as that code unpacks it, downhill",
    )
    client_state = ("c",)
    server_state = ("c",)
    server_scalars = ("change",)  # of alpha, since the first round
    scratch = ("momentum",)
    communication = (3, 2)
    counts_steps = True
    whole_rows = True

    def fresh_weight(self, ctx: Context) -> Tensor:
        """Return alpha of the round, shape (1, 1)."""
        return ctx.server["change"] + self.alpha

    def start(self, w: Tensor, ctx: Context) -> Vectors:
        alpha = self.fresh_weight(ctx)
        correction = (ctx.server["c"] - ctx.client["c"]).mul_(alpha / (1 - alpha))
        return {**super().start(w, ctx), "momentum": correction.add_(ctx.server["direction"])}

    def perturbation(self, w: Tensor, gradient: Gradient, ctx: Context) -> Tensor:
        return self.scaled((ctx.received - w).addcmul_(ctx.scratch["momentum"], ctx.step), ctx)

    def scaled(self, delta: Tensor, ctx: Context) -> Tensor:
        """Return e (rows, parameters) along ``delta``."""
        return along(delta, self.rho)

    def correct(self, g: Tensor, w: Tensor, ctx: Context) -> Tensor:
        alpha = self.fresh_weight(ctx)
        return g.mul_(alpha).addcmul_(ctx.scratch["momentum"], 1 - alpha)

    def finish(self, w: Tensor, ctx: Context) -> tuple[Vectors, Vectors]:
        """Upload c_i^+ - c_i."""
        difference = (ctx.received - w) / (self.step_count(ctx) * ctx.lr) - ctx.server["c"]
        return {"c": ctx.client["c"].add_(difference)}, {"difference": difference}

    def aggregate(self, server: Vectors, uploads: Vectors, ctx: Context) -> Vectors:
        updates = (model - server["w"] for model in uploads["w"])  # one at a time: their matrix could be large
        cosines = [(unit(update) * unit(server["direction"])).sum(dim=1, keepdim=True) for update in updates]
        a = sum(cosines) / len(cosines)
        if self.target == "official_code":
            a = a + server["direction"].any(dim=1, keepdim=True)  # 0 in the first round
        change = (a.clamp(0.1, 0.9) - self.fresh_weight(ctx)).mul_(self.adaptation).add_(server["change"])
        c = server["c"].add(uploads["difference"].sum(dim=0, keepdim=True), alpha=1 / ctx.client_count)
        return {**super().aggregate(server, uploads, ctx), "c": c, "change": change}
