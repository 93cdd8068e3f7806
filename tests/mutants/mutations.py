"""Mistakes that the tests of an algorithm must notice: at least four for each, made one at a time.

A mutation is (file under src/flatfed, text, what replaces it, what mistake that is). One in a file that several
algorithms share stands for each of them by itself: it must be noticed by that algorithm's own tests.
"""

from __future__ import annotations

NO_CLIP = ("engine/local_update.py", "if self.clip_norm is not None:", "if False:", "the clip is skipped")
CLIP_ALL = (
    "engine/local_update.py",
    "shared.mul_((self.clip_norm / (norm + CLIP_EPSILON)).clamp_(max=1.0))",
    "shared.mul_(self.clip_norm / (norm + CLIP_EPSILON))",
    "short gradients are stretched to the clip's norm",
)
NO_DECAY = (
    "engine/local_update.py",
    "shrink = self.weight_decay + self.algorithm.proximal",
    "shrink = self.algorithm.proximal",
    "weight decay is dropped",
)
NO_PROXIMAL = (
    "engine/local_update.py",
    "shrink = self.weight_decay + self.algorithm.proximal",
    "shrink = self.weight_decay",
    "the quadratic half of the proximal term is dropped",
)
UPHILL = ("algorithms/_base.py", "w.addcmul_(d, ctx.lr, value=-1)", "w.addcmul_(d, ctx.lr)", "steps go uphill")
NO_RATE = ("algorithms/_base.py", "w.addcmul_(d, ctx.lr, value=-1)", "w.sub_(d, alpha=0.2)", "the rate does not decay")

SAM_SIGN = ("algorithms/_sam.py", ", self.rho)", ", -self.rho)", "SAM descends to its perturbed point")
SAM_LENGTH = (
    "algorithms/_sam.py",
    "along(gradient(w), self.rho)",
    "self.rho * gradient(w)",
    "SAM's perturbation is not normalised",
)
SAM_NONE = (
    "engine/local_update.py",
    "g = gradient(w + e)",
    "g = gradient(w)",
    "the perturbation is not applied",
)
SAM_KEPT = (
    "engine/local_update.py",
    "g = gradient(w + e)",
    "g = gradient(w.add_(e))",
    "the perturbation is not taken back",
)
ALONG_SUM = (
    "algorithms/_rows.py",
    "rows.norm(dim=1, keepdim=True) + EPSILON",
    "rows.abs().sum(dim=1, keepdim=True) + EPSILON",
    "the norm is a sum of absolute values",
)
ALONG_INVERSE = ("algorithms/_rows.py", "EPSILON) / length", "EPSILON) * length", "rho divides the perturbation")

MEAN_SUM = (
    "algorithms/fedavg.py",
    'uploads["w"].mean(dim=0, keepdim=True)',
    'uploads["w"].sum(dim=0, keepdim=True)',
    "local models are summed",
)
NO_SERVER_RATE = ("algorithms/fedavg.py", ", self.server_learning_rate)", ", 1.0)", "eta_g is dropped")

VARIATE_SIGN = (
    "algorithms/scaffold.py",
    'ctx.server["c"] - ctx.client["c"]',
    'ctx.client["c"] - ctx.server["c"]',
    "the correction has the wrong sign (FedLESAM's Alg. 2)",
)
VARIATE_NONE = ("algorithms/scaffold.py", 'return g.add_(ctx.scratch["correction"])', "return g", "no correction")
VARIATE_N = (
    "algorithms/scaffold.py",
    "alpha=1 / ctx.client_count)",
    'alpha=1 / len(uploads["w"]))',
    "c averages changes over active instead of all clients",
)
VARIATE_STALE = ("algorithms/scaffold.py", 'ctx.client["c"].add_(delta)', 'ctx.client["c"]', "c_i is never updated")
VARIATE_STEPS = ("algorithms/scaffold.py", "(self.step_count(ctx) * ctx.lr)", "ctx.lr", "the division by K is dropped")
STEPS_LAST = ("engine/simulation.py", "self.sizes[0]", "self.sizes[-1]", "the official K is that of the last client")
STEPS_SWAPPED = (
    "algorithms/_steps.py",
    'self.steps == "paper"',
    'self.steps != "paper"',
    "the two forms of K are swapped",
)

DUAL_SIGN = (
    "algorithms/feddyn.py",
    '(ctx.client["h"] - ctx.received)',
    '(-ctx.client["h"] - ctx.received)',
    "the dual has the wrong sign (FedLESAM's Alg. 4)",
)
DUAL_NONE = ("algorithms/feddyn.py", 'return g.add_(ctx.scratch["pull"])', "return g", "the dual is dropped")
DUAL_N = (
    "algorithms/feddyn.py",
    'len(uploads["w"]) / ctx.client_count',
    "1.0",
    "h is averaged over active instead of all clients",
)
DUAL_SERVER = ("algorithms/feddyn.py", "mean + h,", "mean,", "the server leaves the mean h out")
DUAL_STALE = ("algorithms/feddyn.py", ".add_(w - ctx.received)}, {}", "}, {}", "h_i is never updated")

DELTA_SIGN = ("algorithms/fedcm.py", ".div_(-ctx.lr)", ".div_(ctx.lr)", "Delta has the wrong sign")
DELTA_SWAP = (
    "algorithms/fedcm.py",
    'g.mul_(self.alpha).add_(ctx.server["direction"], alpha=1 - self.alpha)',
    'g.mul_(1 - self.alpha).add_(ctx.server["direction"], alpha=self.alpha)',
    "alpha is taken for the momentum",
)
DELTA_FRESH = (
    "algorithms/fedcm.py",
    "g.mul_(self.alpha).add_",
    "g.add_",
    "the fresh gradient is not weighted (the LESAM repository's MoFedSAM)",
)
DELTA_STALE = (
    "algorithms/fedcm.py",
    'return {**super().aggregate(server, uploads, ctx), "direction": direction}',
    "return super().aggregate(server, uploads, ctx)",
    "Delta is never updated",
)
DELTA_STEPS = (
    "algorithms/_rows.py",
    "steps.reciprocal().T / len(uploads)",
    "steps.new_ones(steps.shape).T / len(uploads)",
    "K is dropped",
)

LESAM_SIGN = (
    "algorithms/_lesam.py",
    'direction = ctx.scratch["previous"] - ctx.received',
    'direction = ctx.received - ctx.scratch["previous"]',
    "w^t - w_old",
)
LESAM_NONE = ("algorithms/_lesam.py", 'return ctx.scratch["e"]', "return None", "no perturbation")
LESAM_SERVER = (
    "algorithms/_lesam.py",
    'direction = -ctx.server["step"]',
    'direction = ctx.server["step"]',
    "the server's step without its minus",
)
LESAM_STEP = (
    "algorithms/_lesam.py",
    'changed["w"] - server["w"]',
    'uploads["w"].mean(dim=0, keepdim=True) - server["w"]',
    "the clients' mean step for the server's",
)
LESAM_FIRST = (
    "algorithms/_lesam.py",
    'if self.first == "unperturbed":',
    "if True:",
    "Alg. 1's first participation does not begin from w_old = 0",
)
LESAM_STALE = (
    "engine/received.py",
    "self.rounds[clients] = round_",
    "self.rounds[clients] = np.where(self.rounds[clients] < 0, round_, self.rounds[clients])",
    "a client remembers the first model that it received for ever",
)
LESAM_EVERYBODY = (
    "engine/received.py",
    "self.rounds[clients] = round_",
    "self.rounds[:] = round_",
    "clients remember models that they never received",
)

GOSSIP_NONE = ("algorithms/_rows.py", "columns.copy_(mixing @ columns)", "pass", "nodes do not mix")
GOSSIP_TRANSPOSED = ("algorithms/_rows.py", "(mixing @ columns)", "(mixing.T @ columns)", "W is transposed")
GOSSIP_STEP = ("algorithms/_base.py", "gossip(models, mixing(0))", "gossip(models, mixing(1))", "another graph's W")
GOSSIP_TWICE = (
    "algorithms/_base.py",
    "gossip(models, mixing(0))",
    "gossip(models, mixing(0) @ mixing(0))",
    "one gossip step too many",
)
GOSSIP_ROUND = (
    "engine/peers.py",
    "self.topology.mixing(self.round, step)",
    "self.topology.mixing(0, step)",
    "the graph does not change with time",
)
GOSSIP_FIRST = (
    "engine/peers.py",
    "if self.algorithm.mix_first and not self.mixed:",
    "if not self.mixed:",
    "nodes mix before they train",
)
TRAINED_LOST = (
    "engine/peers.py",
    'rows["model"].copy_(uploads["w"])',
    "pass",
    "stacked nodes forget what they learnt",
)

SERVED = (NO_CLIP, CLIP_ALL, NO_DECAY, UPHILL)
SAM = (SAM_SIGN, SAM_LENGTH, SAM_NONE, SAM_KEPT, ALONG_SUM, ALONG_INVERSE)
VARIATES = (VARIATE_SIGN, VARIATE_NONE, VARIATE_N, VARIATE_STALE, VARIATE_STEPS, STEPS_SWAPPED, STEPS_LAST)
DUALS = (DUAL_SIGN, DUAL_NONE, DUAL_N, DUAL_SERVER, DUAL_STALE, NO_PROXIMAL)
DELTAS = (DELTA_SIGN, DELTA_SWAP, DELTA_FRESH, DELTA_STALE, DELTA_STEPS, STEPS_SWAPPED, STEPS_LAST)
LESAM = (LESAM_SIGN, LESAM_NONE, LESAM_SERVER, LESAM_FIRST, LESAM_STALE, LESAM_EVERYBODY)
PEERS = (NO_CLIP, GOSSIP_NONE, GOSSIP_TRANSPOSED, GOSSIP_ROUND, TRAINED_LOST)
TRAIN_THEN_MIX = (GOSSIP_STEP, GOSSIP_TWICE, GOSSIP_FIRST)

#: Algorithm -> its mutations.
MUTATIONS: dict[str, tuple[tuple[str, str, str, str], ...]] = {
    "fedavg": (*SERVED, NO_RATE, MEAN_SUM, NO_SERVER_RATE),
    "fedprox": (
        *SERVED,
        NO_PROXIMAL,
        ("algorithms/fedprox.py", "g.sub_(ctx.received", "g.add_(ctx.received", "the linear half has the wrong sign"),
        ("algorithms/fedprox.py", "return g.sub_(ctx.received, alpha=self.mu)", "return g", "no linear half"),
        ("algorithms/fedprox.py", "return self.mu\n", "return 2 * self.mu\n", "mu counts twice"),
    ),
    "fedadam": (
        NO_CLIP,
        ("algorithms/fedadam.py", '- server["w"]\n', '+ server["w"]\n', "models instead of their change"),
        ("algorithms/fedadam.py", "(step, 1 - self.beta1)", "(step, self.beta1)", "beta1 weighs the new"),
        ("algorithms/fedadam.py", "1 - self.beta2)", "1 - self.beta1)", "beta1 in place of beta2"),
        ("algorithms/fedadam.py", "sqrt() + self.tau", "add(self.tau).sqrt()", "tau under the root"),
        ("algorithms/fedadam.py", "step.square()", "step.abs()", "the second moment is not a square"),
        ("algorithms/fedadam.py", "alpha=self.server_learning_rate", "alpha=1.0", "eta_g is dropped"),
    ),
    "scaffold": (*VARIATES, MEAN_SUM, NO_SERVER_RATE),
    "fedcm": (
        *DELTAS,
        ("algorithms/fedcm.py", 'self.scaling == "paper"', 'self.scaling != "paper"', "the two servers are swapped"),
        (
            "algorithms/fedcm.py",
            'server["w"].sub(direction',
            'server["w"].add(direction',
            "the paper's server goes uphill (Qu et al., appendix D.1)",
        ),
    ),
    "fedgmt": (
        ("algorithms/fedgmt.py", 'ctx.received + ctx.server["lead"]', "ctx.received", "e is the received model"),
        ("algorithms/fedgmt.py", "(target - ours)", "(ours - target)", "the divergence has the wrong sign"),
        ("algorithms/fedgmt.py", "target.exp()", "ours.exp()", "the divergence is of the other direction"),
        ("algorithms/fedgmt.py", "self.distillation * tau**2", "self.distillation", "tau^2 is dropped"),
        ("algorithms/fedgmt.py", ") * self.average", ") * (1 - self.average)", "the average swaps its weights"),
        ("algorithms/fedgmt.py", "return 0.0", "return self.penalty", "FedDyn's quadratic is there"),
    ),
    "fedwmsam": (
        ("algorithms/fedwmsam.py", "mul_(alpha / (1 - alpha))", "mul_(alpha)", "the correction has another weight"),
        ("algorithms/fedwmsam.py", "scaled((ctx.received - w)", "scaled((w - ctx.received)", "delta is negated"),
        ("algorithms/fedwmsam.py", ", ctx.step), ctx)", ", ctx.steps), ctx)", "delta is of the last step"),
        ("algorithms/fedwmsam.py", "g.mul_(alpha)", "g.mul_(self.alpha)", "the gradient keeps the first alpha"),
        ("algorithms/fedwmsam.py", "a = a + server", "a = a - server", "alpha follows the cosine minus one"),
        ("algorithms/fedwmsam.py", "a.clamp(0.1, 0.9)", "a", "alpha's target has no bounds"),
        ("algorithms/fedwmsam.py", "1 / ctx.client_count", "1 / len(uploads['w'])", "c is a mean over active clients"),
        ("algorithms/fedwmsam.py", '.add_(server["change"])', "", "alpha forgets earlier rounds"),
    ),
    "mimelite": (
        NO_CLIP,
        ("algorithms/mimelite.py", ", self.alpha)", ", 1 - self.alpha)", "the server's momentum swaps its weights"),
        ("algorithms/mimelite.py", "g.mul_(self.alpha).add_", "g.add_", "the fresh gradient is not weighted"),
        (
            "engine/simulation.py",
            "self.full_gradient(received, members)",
            "self.full_gradient(0.9 * received, members)",
            "full gradient at another model",
        ),
        (
            "algorithms/mimelite.py",
            'uploads["gradient"].mean(',
            'uploads["gradient"].sum(',
            "full gradients are summed",
        ),
        ("engine/full_gradient.py", "1 / len(images)", "1 / len(part)", "the full gradient adds up means of pieces"),
    ),
    "fedrobust": (
        NO_CLIP,
        ("algorithms/fedrobust.py", "value=self.ascent)", "value=-self.ascent)", "the shift descends"),
        ("algorithms/fedrobust.py", "- 2 * penalty", "- penalty", "half the penalty"),
        ("algorithms/fedrobust.py", " + shift.view(shape)", "", "the shift is dropped"),
        ("algorithms/fedrobust.py", "images + images * scale", "images * scale", "the map begins at zero, not at one"),
        (
            "algorithms/fedrobust.py",
            "size + half, self.shift_penalty",
            "size + half, self.scale_penalty",
            "one penalty for both",
        ),
        ("engine/simulation.py", 'rows["private"].copy_(w[:, self.layout.size :])', "pass", "the shift is forgotten"),
        ("engine/local_update.py", "shared = d[:, : self.executor.layout.size]", "shared = d", "the shift is clipped"),
    ),
    "feddyn": (*DUALS, NO_CLIP),
    "fedsam": (*SAM, MEAN_SUM, NO_CLIP),
    "mofedsam": (*SAM, *DELTAS),
    "fedgamma": (*SAM, *VARIATES),
    "fedspeed": (
        *SAM,
        *DUALS,
        ("algorithms/fedspeed.py", 'w.add_(state["h"])', "w", "active clients send w_i alone"),
        (
            "algorithms/fedspeed.py",
            'if self.average == "active_clients":\n            return',
            "if True:\n            return",
            "always the mean over active clients",
        ),
    ),
    "fedsmoo": (
        *DUALS,
        SAM_NONE,
        ALONG_SUM,
        ALONG_INVERSE,
        (
            "algorithms/fedsmoo.py",
            '.sub_(ctx.server["s"]), self.rho)',
            '.add_(ctx.server["s"]), self.rho)',
            "s enters the perturbation with a plus",
        ),
        ("algorithms/fedsmoo.py", '.sub_(ctx.client["mu"])', "", "mu_i is left out of the perturbation"),
        ("algorithms/fedsmoo.py", '.add_(e).sub_(ctx.server["s"])', ".add_(e)", "the dual step of mu_i forgets s"),
        ("algorithms/fedsmoo.py", ".add_(e).sub_(", ".copy_(e).sub_(", "mu_i does not accumulate"),
        ("algorithms/fedsmoo.py", 'ctx.client["mu"] - last', 'ctx.client["mu"] + last', "Alg. 1's line 13 with a plus"),
        (
            "algorithms/fedsmoo.py",
            "keepdim=True), self.rho)",
            "keepdim=True), -self.rho)",
            "s has the wrong sign",
        ),
        (
            "algorithms/fedsmoo.py",
            'ctx.scratch["e"] if self.s == "paper"',
            'ctx.scratch["e"] if self.s != "paper"',
            "the two forms of s are swapped",
        ),
    ),
    "fedlesam": (*LESAM, LESAM_STEP, ALONG_SUM, ALONG_INVERSE, MEAN_SUM),
    "fedlesam_s": (
        *LESAM,
        *VARIATES,
        ("algorithms/fedlesam_s.py", 'self.correction == "official_code"', "True", "always the official factor"),
        ("algorithms/fedlesam_s.py", "factor = OFFICIAL", "factor = 1 / OFFICIAL", "ten times for a tenth"),
    ),
    "fedlesam_d": (*LESAM, LESAM_STEP, *DUALS),
    "centralised_sgd": (
        *SERVED,
        NO_RATE,
    ),
    "centralised_sam": (*SAM, NO_DECAY),
    "dpsgd": (
        *PEERS,
        ("algorithms/dpsgd.py", "models.sub_(steps)", "pass", "the step is taken twice"),
        ("algorithms/dpsgd.py", "models.add_(steps)", "pass", "the step is lost"),
        ("algorithms/dpsgd.py", "steps.zero_()", "pass", "a node that does not train repeats its last step"),
        (
            "algorithms/dpsgd.py",
            'self.order == "official_code"',
            'self.order != "official_code"',
            "the two orders are swapped",
        ),
    ),
    "dfedavg": (*PEERS, *TRAIN_THEN_MIX),
    "dfedavgm": (
        *PEERS,
        *TRAIN_THEN_MIX,
        ("algorithms/dfedavgm.py", ".mul_(self.momentum).add_(d)", ".add_(d)", "the velocity does not decay"),
        ("algorithms/dfedavgm.py", ".add_(d)", ".add_(d, alpha=1 - self.momentum)", "the gradient is damped"),
        ("algorithms/dfedavgm.py", "update(w, velocity, ctx)", "update(w, d, ctx)", "the momentum is dropped"),
    ),
    "dispfl": (
        NO_CLIP,
        (
            "algorithms/dispfl.py",
            "/ (near @ shared).clamp_(min=1)",
            "/ near.sum(dim=1, keepdim=True)",
            "mean over all neighbours",
        ),
        (
            "algorithms/dispfl.py",
            "moved), 1)\n        return",
            'moved), 1)\n        w.mul_(ctx.client["shared"].copy_(ctx.client["mask"]))\n        return',
            "nodes share under the new mask",
        ),
        (
            "algorithms/dispfl.py",
            "moved), 1)\n        return",
            'moved), 1)\n        w.mul_(ctx.client["mask"])\n        return',
            "what is pruned is not shared any more",
        ),
        ("algorithms/dispfl.py", "near @ shared", "near @ mask", "those are counted who will have the weight"),
        (
            "algorithms/dispfl.py",
            "            shared.copy_(mask)",
            "            pass",
            "the first mask is shared for good",
        ),
        (
            "algorithms/dispfl.py",
            'ctx.client["shared"].copy_(mask)',
            "pass",
            "nobody has anything before the first round",
        ),
        ("algorithms/dispfl.py", "columns.copy_(mask * (near", "columns.copy_((near", "the own mask is not applied"),
        ("algorithms/dispfl.py", "near @ columns", "near.T @ columns", "the neighbours' neighbours"),
        (
            "algorithms/dispfl.py",
            'update(w, d, ctx).mul_(ctx.client["mask"])',
            "update(w, d, ctx)",
            "steps leave the mask",
        ),
        ("algorithms/dispfl.py", "_smallest(size, moved)", "_smallest(-size, moved)", "the largest weights are pruned"),
        (
            "algorithms/dispfl.py",
            "masked_fill_(mask == 0, math.inf)",
            "masked_fill_(mask < 0, math.inf)",
            "what is gone is pruned again",
        ),
        (
            "algorithms/dispfl.py",
            "masked_fill(mask > 0, -1)",
            "masked_fill(mask < 0, -1)",
            "weights regrow where they are",
        ),
        (
            "algorithms/dispfl.py",
            "math.pi * ctx.round / ctx.rounds",
            "math.pi * (ctx.round + 1) / ctx.rounds",
            "the anneal is a round ahead",
        ),
        (
            "algorithms/dispfl.py",
            "sum(shape) / math.prod(shape)",
            "1 / math.prod(shape)",
            "another density for each layer",
        ),
        (
            "algorithms/dispfl.py",
            'if self.regrow == "random"',
            'if self.regrow != "random"',
            "the two ways to regrow are swapped",
        ),
        ("algorithms/dispfl.py", "len(layers) + layer", "len(layers) - layer", "layers share their draws"),
    ),
    "dfedsam": (*SAM, *PEERS, *TRAIN_THEN_MIX),
    "dfedsam_mgs": (
        *SAM,
        *PEERS,
        GOSSIP_FIRST,
        ("algorithms/dfedsam_mgs.py", "range(self.gossip_steps)", "range(self.gossip_steps + 1)", "Q + 1 gossip steps"),
        (
            "algorithms/dfedsam_mgs.py",
            "gossip(models, mixing(step))",
            "gossip(models, mixing(0))",
            "one graph for all steps",
        ),
        ("algorithms/dfedsam_mgs.py", "range(self.gossip_steps)", "range(1)", "one gossip step"),
    ),
}
