"""Mistakes that the tests of an algorithm must notice: at least four for each, made one at a time.

A mutation is (file, text, what replaces it, what mistake that is). The file has no suffix and, if it is an algorithm's,
no folder. A mutation in a file that several algorithms share must be noticed by each algorithm's own tests.
"""

from __future__ import annotations

STEP = "engine/local_update"

NO_CLIP = (STEP, "if self.config.clip_norm is not None:", "if False:", "the clip is skipped")
CLIP_ALL = (STEP, "EPSILON)).clamp_(max=1.0)", "EPSILON))", "short gradients are stretched to the clip's norm")
NO_DECAY = (STEP, "weight_decay + self.algorithm.", "algorithm.", "weight decay is dropped")
NO_PROXIMAL = (STEP, " + self.algorithm.proximal", "", "the quadratic half of the proximal term is dropped")
UPHILL = ("_base", "w.addcmul_(d, ctx.lr, value=-1)", "w.addcmul_(d, ctx.lr)", "steps go uphill")
SCHEDULE = (
    ("fedswa", "ctx.lr * share", "ctx.lr", "the learning rate is constant within a round"),
    ("fedswa", "(1 - self.last_rate)", "self.last_rate", "rho swaps its sense"),
    ("fedswa", "ctx.step /", "(ctx.step + 1) /", "the first step has a lower rate"),
    ("fedswa", "/ ctx.steps", "/ (ctx.steps - 1)", "the last step has rho eta"),
)
NO_RATE = ("_base", "w.addcmul_(d, ctx.lr, value=-1)", "w.sub_(d, alpha=0.2)", "the rate does not decay")

SAM_SIGN = ("_sam", ", self.rho)", ", -self.rho)", "SAM descends to its perturbed point")
SAM_LENGTH = ("_sam", "along(gradient(w), self.rho)", "self.rho * gradient(w)", "SAM's perturbation is not normalised")
SAM_NONE = (STEP, "g = gradient(w + e)", "g = gradient(w)", "the perturbation is not applied")
SAM_KEPT = (STEP, " = gradient(w + e)", " = gradient(w.add_(e))", "the perturbation is not taken back")
ALONG_SUM = ("_rows", "norm(dim=1, keepdim=True) ", "abs().sum(dim=1, keepdim=True) ", "a norm of absolute values")
ALONG_INVERSE = ("_rows", "EPSILON) / length", "EPSILON) * length", "rho divides the perturbation")

MEAN_SUM = ("fedavg", '["w"].mean(dim=0, keepdim=True)', '["w"].sum(dim=0, keepdim=True)', "local models are summed")
NO_SERVER_RATE = ("fedavg", ", self.server_learning_rate)", ", 1.0)", "eta_g is dropped")

VARIATE_SIGN = ("scaffold", 'server["c"] - ctx.client', 'client["c"] - ctx.server', "a wrong sign (FedLESAM's Alg. 2)")
VARIATE_NONE = ("scaffold", 'return g.add_(ctx.scratch["correction"])', "return g", "no correction")
VARIATE_N = ("scaffold", "ctx.client_count", 'len(uploads["w"])', "c averages over active instead of all clients")
VARIATE_STALE = ("scaffold", 'ctx.client["c"].add_(delta)', 'ctx.client["c"]', "c_i is never updated")
VARIATE_STEPS = ("scaffold", "(self.step_count(ctx) * ctx.lr)", "ctx.lr", "the division by K is dropped")
STEPS_LAST = ("engine/simulation", "self.sizes[0]", "self.sizes[-1]", "the official K is that of the last client")
STEPS_SWAPPED = ("_steps", 'self.steps == "paper"', 'self.steps != "paper"', "the two forms of K are swapped")

DUAL_SIGN = ("feddyn", 'ctx.client["h"] - ', '-ctx.client["h"] - ', "the dual has the wrong sign (FedLESAM's Alg. 4)")
DUAL_NONE = ("feddyn", 'return g.add_(ctx.scratch["pull"])', "return g", "the dual is dropped")
DUAL_N = ("feddyn", 'len(uploads["w"]) / ctx.client_count', "1.0", "h is averaged over active instead of all clients")
DUAL_SERVER = ("feddyn", "mean + h,", "mean,", "the server leaves the mean h out")
DUAL_STALE = ("feddyn", ".add_(w - ctx.received)}, {}", "}, {}", "h_i is never updated")

DELTA_SIGN = ("fedcm", ".div_(-ctx.lr)", ".div_(ctx.lr)", "Delta has the wrong sign")
DELTA_SWAP = (
    "fedcm",
    'self.alpha).add_(ctx.server["direction"], alpha=1 - ',
    '1 - self.alpha).add_(ctx.server["direction"], alpha=',
    "alpha is taken for the momentum",
)
DELTA_FRESH = ("fedcm", "mul_(self.alpha).", "", "the fresh gradient has no weight (the LESAM repository's MoFedSAM)")
DELTA_STALE = ("fedcm", 'uploads, ctx), "direction": direction}', "uploads, ctx)}", "Delta is never updated")
DELTA_STEPS = ("_rows", ".reciprocal().T / len(uploads)", ".new_ones(steps.shape).T / len(uploads)", "K is dropped")

LESAM_SIGN = ("_lesam", '.scratch["previous"] - ctx.received', '.received - ctx.scratch["previous"]', "w^t - w_old")
LESAM_NONE = ("_lesam", 'return ctx.scratch["e"]', "return None", "no perturbation")
LESAM_SERVER = ("_lesam", ' = -ctx.server["step"]', ' = ctx.server["step"]', "the server's step without its minus")
LESAM_STEP = ("_lesam", 'changed["w"]', 'uploads["w"].mean(dim=0, keepdim=True)', "clients' mean for the server's step")
LESAM_FIRST = ("_lesam", 'self.first == "unperturbed"', "True", "Alg. 1's first round does not begin from w_old = 0")
KEPT = "engine/client_state"
LESAM_STALE = (KEPT, "[clients] = round_", "[clients[self.rounds[clients] < 0]] = round_", "a first model is kept")
LESAM_EVERYBODY = (KEPT, "clients] = round_", ":] = round_", "clients remember models that they never received")

GOSSIP_NONE = ("_rows", "columns.copy_(mixing @ columns)", "pass", "nodes do not mix")
GOSSIP_TRANSPOSED = ("_rows", "(mixing @ columns)", "(mixing.T @ columns)", "W is transposed")
GOSSIP_STEP = ("_base", "gossip(models, mixing(0))", "gossip(models, mixing(1))", "another graph's W")
GOSSIP_TWICE = ("_base", "(models, mixing(0))", "(models, mixing(0) @ mixing(0))", "one gossip step too many")
PEERS = "engine/aggregation"
GOSSIP_ROUND = (PEERS, ".mixing(self.round, step)", ".mixing(0, step)", "the graph does not change with time")
GOSSIP_FIRST = (PEERS, "if self.algorithm.mix_first else []", "", "nodes mix before they train")
TRAINED_LOST = (PEERS, 'rows["model"].copy_(uploads["w"])', "pass", "stacked nodes forget what they learnt")

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
        ("fedprox", "g.sub_(ctx.received", "g.add_(ctx.received", "the linear half has the wrong sign"),
        ("fedprox", "return g.sub_(ctx.received, alpha=self.mu)", "return g", "no linear half"),
        ("fedprox", "return self.mu\n", "return 2 * self.mu\n", "mu counts twice"),
    ),
    "fedadam": (
        NO_CLIP,
        ("fedadam", '- server["w"]\n', '+ server["w"]\n', "models instead of their change"),
        ("fedadam", "(step, 1 - self.beta1)", "(step, self.beta1)", "beta1 weighs the new"),
        ("fedadam", "1 - self.beta2)", "1 - self.beta1)", "beta1 in place of beta2"),
        ("fedadam", "sqrt() + self.tau", "add(self.tau).sqrt()", "tau under the root"),
        ("fedadam", "step.square()", "step.abs()", "the second moment is not a square"),
        ("fedadam", "alpha=self.server_learning_rate", "alpha=1.0", "eta_g is dropped"),
    ),
    "scaffold": (*VARIATES, MEAN_SUM, NO_SERVER_RATE),
    "fedcm": (
        *DELTAS,
        ("fedcm", 'self.scaling == "paper"', 'self.scaling != "paper"', "the two servers are swapped"),
        ("fedcm", 'w"].sub(direction', 'w"].add(direction', "the paper's server goes uphill (Qu et al., appendix D.1)"),
    ),
    "fedgmt": (
        ("fedgmt", 'ctx.received + ctx.server["lead"]', "ctx.received", "e is the received model"),
        ("fedgmt", "(target - ours)", "(ours - target)", "the divergence has the wrong sign"),
        ("fedgmt", "target.exp()", "ours.exp()", "the divergence is of the other direction"),
        ("fedgmt", "self.distillation * tau**2", "self.distillation", "tau^2 is dropped"),
        ("fedgmt", ") * self.average", ") * (1 - self.average)", "the average swaps its weights"),
        ("fedgmt", "return 0.0", "return self.penalty", "FedDyn's quadratic is there"),
    ),
    "fedwmsam": (
        ("fedwmsam", "mul_(alpha / (1 - alpha))", "mul_(alpha)", "the correction has another weight"),
        ("fedwmsam", "scaled((ctx.received - w)", "scaled((w - ctx.received)", "delta is negated"),
        ("fedwmsam", ", ctx.step), ctx)", ", ctx.steps), ctx)", "delta is of the last step"),
        ("fedwmsam", "g.mul_(alpha)", "g.mul_(self.alpha)", "the gradient keeps the first alpha"),
        ("fedwmsam", "a = a + server", "a = a - server", "alpha follows the cosine minus one"),
        ("fedwmsam", "a.clamp(0.1, 0.9)", "a", "alpha's target has no bounds"),
        ("fedwmsam", "1 / ctx.client_count", "1 / len(uploads['w'])", "c is a mean over active clients"),
        ("fedwmsam", '.add_(server["change"])', "", "alpha forgets earlier rounds"),
    ),
    "fedswa": (NO_CLIP, CLIP_ALL, NO_DECAY, *SCHEDULE, MEAN_SUM, NO_SERVER_RATE),
    "fedmoswa": (
        *SCHEDULE,
        *(VARIATE_SIGN, VARIATE_NONE, VARIATE_STALE, MEAN_SUM, NO_SERVER_RATE),
        ("fedmoswa", "(ctx.steps * (1 + self.last_rate) + 1 - self.last_rate) / 2", "ctx.steps", "K eta is the sum"),
        ("fedmoswa", "+ 1 - self.last_rate", "", "the sum of rates is that of the limit of many steps"),
        ("fedmoswa", ", self.adaptation)", ", 1 - self.adaptation)", "m swaps its weights"),
        ("fedmoswa", "return state, state", 'return state, {"c": state["c"] - ctx.client["c"]}', "clients send no c_i"),
    ),
    "mimelite": (
        NO_CLIP,
        ("mimelite", ", self.alpha)", ", 1 - self.alpha)", "the server's momentum swaps its weights"),
        ("mimelite", "g.mul_(self.alpha).add_", "g.add_", "the fresh gradient is not weighted"),
        ("engine/simulation", "(w, members)", "(0.9 * w, members)", "full gradient at another model"),
        ("mimelite", 'uploads["gradient"].mean(', 'uploads["gradient"].sum(', "full gradients are summed"),
        ("engine/simulation", "1 / len(images)", "1 / len(part)", "the full gradient adds up means of pieces"),
    ),
    "fedrobust": (
        NO_CLIP,
        ("fedrobust", "value=self.ascent)", "value=-self.ascent)", "the shift descends"),
        ("fedrobust", "- 2 * penalty", "- penalty", "half the penalty"),
        ("fedrobust", " + shift.view(shape)", "", "the shift is dropped"),
        ("fedrobust", "images + images * scale", "images * scale", "the map begins at zero, not at one"),
        ("fedrobust", "= self.scale_penalty, self.shift_penalty", "= [self.scale_penalty] * 2", "one penalty for both"),
        ("engine/simulation", 'rows["local"].copy_(w[:, self.local])', "pass", "the shift is forgotten"),
        (STEP, "d.index_fill(1, self.local, 0)", "d", "the shift's gradient is in the clip's norm"),
    ),
    "feddyn": (*DUALS, NO_CLIP),
    "fedsam": (*SAM, MEAN_SUM, NO_CLIP),
    "mofedsam": (*SAM, *DELTAS),
    "fedgamma": (*SAM, *VARIATES),
    "fedspeed": (
        *SAM,
        *DUALS,
        ("fedspeed", 'w.add_(state["h"])', "w", "active clients send w_i alone"),
        ("fedspeed", 'self.average == "active_clients":', "True:", "always the mean over active clients"),
    ),
    "fedsmoo": (
        *DUALS,
        SAM_NONE,
        ALONG_SUM,
        ALONG_INVERSE,
        ("fedsmoo", 'sub_(ctx.server["s"]), ', 'add_(ctx.server["s"]), ', "s enters the perturbation with a plus"),
        ("fedsmoo", '.sub_(ctx.client["mu"])', "", "mu_i is left out of the perturbation"),
        ("fedsmoo", '.add_(e).sub_(ctx.server["s"])', ".add_(e)", "the dual step of mu_i forgets s"),
        ("fedsmoo", ".add_(e).sub_(", ".copy_(e).sub_(", "mu_i does not accumulate"),
        ("fedsmoo", 'ctx.client["mu"] - last', 'ctx.client["mu"] + last', "Alg. 1's line 13 with a plus"),
        ("fedsmoo", "keepdim=True), self.rho)", "keepdim=True), -self.rho)", "s has the wrong sign"),
        ("fedsmoo", '["e"] if self.s == "paper"', '["e"] if self.s != "paper"', "the two forms of s are swapped"),
    ),
    "fedlesam": (*LESAM, LESAM_STEP, ALONG_SUM, ALONG_INVERSE, MEAN_SUM),
    "fedlesam_s": (
        *LESAM,
        *VARIATES,
        ("fedlesam_s", 'self.correction == "official_code"', "True", "always the official factor"),
        ("fedlesam_s", "factor = OFFICIAL", "factor = 1 / OFFICIAL", "ten times for a tenth"),
    ),
    "fedlesam_d": (*LESAM, LESAM_STEP, *DUALS),
    "centralised_sgd": (*SERVED, NO_RATE),
    "centralised_sam": (*SAM, NO_DECAY),
    "dpsgd": (
        *PEERS,
        ("dpsgd", "models.sub_(steps)", "models", "the step is taken twice"),
        ("dpsgd", ").add_(steps)", ")", "the step is lost"),
        ("dpsgd", "steps.zero_()", "steps", "a node that does not train repeats its last step"),
        ("dpsgd", 'self.order == "official_code"', 'self.order != "official_code"', "the two orders are swapped"),
    ),
    "dfedavg": (*PEERS, *TRAIN_THEN_MIX),
    "dfedavgm": (
        *PEERS,
        *TRAIN_THEN_MIX,
        ("dfedavgm", ".mul_(self.momentum).add_(d)", ".add_(d)", "the velocity does not decay"),
        ("dfedavgm", ".add_(d)", ".add_(d, alpha=1 - self.momentum)", "the gradient is damped"),
        ("dfedavgm", "update(w, velocity, ctx)", "update(w, d, ctx)", "the momentum is dropped"),
    ),
    "dispfl": (
        NO_CLIP,
        ("dispfl", "/ (near @ shared).clamp_(min=1)", "/ near.sum(dim=1, keepdim=True)", "mean over all neighbours"),
        (
            "dispfl",
            "1)\n        return",
            '1)\n        w.mul_(ctx.client["shared"].copy_(ctx.client["mask"]))\n        return',
            "nodes share under the new mask",
        ),
        ("dispfl", "1)\n        return", '1)\n        w.mul_(ctx.client["mask"])\n        return', "shares too little"),
        ("dispfl", "near @ shared", "near @ mask", "those are counted who will have the weight"),
        ("dispfl", "            shared.copy_(mask)", "            pass", "the first mask is shared for good"),
        ("dispfl", ', "shared": mask}', "}", "nobody has anything before the first round"),
        ("dispfl", "columns.copy_(mask * (near", "columns.copy_((near", "the own mask is not applied"),
        ("dispfl", "near @ columns", "near.T @ columns", "the neighbours' neighbours"),
        ("dispfl", 'update(w, d, ctx).mul_(ctx.client["mask"])', "update(w, d, ctx)", "steps leave the mask"),
        ("dispfl", "_smallest(size, moved)", "_smallest(-size, moved)", "the largest weights are pruned"),
        ("dispfl", "(mask == 0, math.inf)", "(mask < 0, math.inf)", "what is gone is pruned again"),
        ("dispfl", "masked_fill(mask > 0, -1)", "masked_fill(mask < 0, -1)", "weights regrow where they are"),
        ("dispfl", ".pi * ctx.round / ctx.rounds", ".pi * (ctx.round + 1) / ctx.rounds", "the anneal is a round ahead"),
        ("dispfl", "sum(shape) / math.prod(shape)", "1 / math.prod(shape)", "another density for each layer"),
        ("dispfl", 'if self.regrow == "random"', 'if self.regrow != "random"', "the two ways to regrow are swapped"),
        ("dispfl", "len(layers) + layer", "len(layers) - layer", "layers share their draws"),
    ),
    "dfedsam": (*SAM, *PEERS, *TRAIN_THEN_MIX),
    "dfedsam_mgs": (
        *SAM,
        *PEERS,
        GOSSIP_FIRST,
        ("dfedsam_mgs", "range(self.gossip_steps)", "range(self.gossip_steps + 1)", "Q + 1 gossip steps"),
        ("dfedsam_mgs", "gossip(models, mixing(step))", "gossip(models, mixing(0))", "one graph for all steps"),
        ("dfedsam_mgs", "range(self.gossip_steps)", "range(1)", "one gossip step"),
    ),
}


def source_file(file: str) -> str:
    """Return the path under src/flatfed of the file of a mutation."""
    return f"{file}.py" if "/" in file else f"algorithms/{file}.py"
