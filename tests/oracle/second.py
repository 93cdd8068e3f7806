"""Every algorithm again, one client after another on one vector, written from the papers' formulas.

Shares with flatfed: the initial weights, the active clients, the batches, the forward pass and mixing matrices. Control
variates, duals, momenta and old models are dictionaries client -> vector. DisPFL is in second_dispfl.py.

A choice with "@" is what public code does: FL-Simulator 653ebb5 (before its repair), FedLESAM d6663cc, FL-SAM 2c16149,
FedScar d347eeb (as FL-SAM), FedWMSAM a922a1d. What these codes do besides and no choice has:

- FL-SAM and FedScar weight the mean by the clients' sizes, use momentum and never clip.
- FedLESAM and FL-Simulator take one K for all clients: epochs * size of client 0 / batch size, not rounded.
- FL-SAM's clients perturb the model in place and go back by subtraction. At the first local step w - w_t is then a
  rounding error and not 0, and the norm's gradient is that error made a unit vector: a push of length penalty/2
  (FedSpeed, FedSMOO, and FedLESAM-D from its second round on; not FedDyn). Here w - w_t is 0.
- FL-SAM's FedSMOO does not clear the gradient before the first of a step's two (clients/clientsmoo.py line 45): from
  the second local step on, the perturbation follows the new gradient plus the entire one of the step before.
- FedScar's SCAFFOLD part does not divide the c_i update by the learning rate, and weights c by the clients' sizes.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import cross_entropy, kl_div
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.optim.lr_scheduler import CosineAnnealingLR, ExponentialLR, MultiStepLR

from flatfed import algorithms
from flatfed.engine.batches import active_clients
from flatfed.engine.topology import Topology
from flatfed.runs.run_config import SamplingSettings, TopologySettings
from harness import Reference

SAM = ("fedsam", "mofedsam", "fedgamma", "fedspeed", "centralised_sam")
LESAM = ("fedlesam", "fedlesam_s", "fedlesam_d")
VARIANCE_REDUCED = ("scaffold", "fedgamma", "fedlesam_s", "fedmoswa")
AVERAGED = ("fedswa", "fedmoswa")
DYNAMIC = ("feddyn", "fedspeed", "fedsmoo", "fedlesam_d", "fedgmt")
MOMENTUM = ("fedcm", "mofedsam")


def unit(v: torch.Tensor) -> torch.Tensor:
    return v / (torch.linalg.norm(v) + 1e-7)


class Problem(Reference):
    """The problem of a description with its clip, its loss, its active clients and torch's learning rates."""

    def __init__(self, folder, spec):
        super().__init__(folder, spec)
        for parameter in self.model.parameters():
            parameter.requires_grad_()
        clock = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=spec["learning_rate"])
        match spec.get("learning_rate_schedule"):
            case {"kind": "cosine", "final_learning_rate": final}:
                scheduler = CosineAnnealingLR(clock, T_max=spec["rounds"], eta_min=final)
            case {"kind": "step", "milestones": milestones, "factor": factor}:
                scheduler = MultiStepLR(clock, milestones, factor)
            case None:
                scheduler = ExponentialLR(clock, spec["learning_rate_decay"])
        self.sizes, self.rates = [parameter.numel() for parameter in self.model.parameters()], []
        for _ in range(spec["rounds"]):
            self.rates += scheduler.get_last_lr()
            clock.step(), scheduler.step()

    def active(self, t: int) -> list[int]:
        return active_clients(SamplingSettings(**self.spec["sampling"]), self.m, self.spec["seed"], t).tolist()

    def topology(self) -> Topology:
        return Topology(TopologySettings(**self.spec["topology"]), self.m, self.spec["seed"])

    def clipped(self, g: torch.Tensor) -> torch.Tensor:
        if self.spec["clip_norm"] is None:
            return g
        return g * min(1.0, self.spec["clip_norm"] / (float(torch.linalg.norm(g)) + 1e-6))

    def gradient(self, w: torch.Tensor, index: np.ndarray) -> torch.Tensor:
        return self.slope(self.loss(self.logits(w, self.x[index]), index))

    def logits(self, w: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        vector_to_parameters(w, self.model.parameters())
        return self.model(images)

    def loss(self, logits: torch.Tensor, index: np.ndarray) -> torch.Tensor:
        return cross_entropy(logits, self.y[index], label_smoothing=self.spec.get("label_smoothing", 0.0))

    def slope(self, loss: torch.Tensor) -> torch.Tensor:
        gradients = torch.autograd.grad(loss, list(self.model.parameters()), retain_graph=True)
        return parameters_to_vector([g.contiguous() for g in gradients]).detach()


class Server(Problem):
    """Algorithms with a server."""

    def __init__(self, folder, spec):
        super().__init__(folder, spec)
        zero = torch.zeros_like(self.w)
        self.zero = zero
        self.c, self.s, self.delta, self.first, self.second, self.momentum, self.step = (zero.clone() for _ in range(7))
        self.c_i, self.h_i, self.mu_i = ({i: zero.clone() for i in range(self.m)} for _ in range(3))
        self.old: dict[int, torch.Tensor] = {}
        self.shifts: dict[int, torch.Tensor] = {}

    def run(self, name: str, p: dict, rounds: int) -> torch.Tensor:
        """Run ``rounds`` rounds of algorithm ``name`` with all its parameters ``p``; return the server's model."""
        self.alpha, self.average = p.get("alpha"), self.w
        for t in range(rounds):
            self.round(name, p, t, self.rates[t], self.active(t))
        return self.w

    def round(self, name: str, p: dict, t: int, eta: float, active: list[int]) -> None:
        """One round."""
        w_t, local, count, fresh, mu = self.w, {}, {}, {}, {}
        for i in active:
            x, e, velocity = w_t.clone(), None, 0.0
            index_list = self.batches(i, t)
            count[i] = len(index_list)
            if p.get("steps") == "official_code":
                count[i] = self.spec["local_epochs"] * len(self.members[0]) / self.spec["batch_size"]
            if name == "fedrobust":
                x = self.robust_client(p, i, x, index_list, eta)
                index_list = []
            shares = [1 - k / count[i] + p.get("last_rate", 1) * k / count[i] for k in range(len(index_list))]
            for k, index in enumerate(index_list):
                e, g = self.perturbed(name, p, t, i, x, w_t, index, k)
                g, quadratic = self.corrected(name, p, i, x, w_t, g)
                velocity = self.spec.get("momentum", 0.0) * velocity + self.clipped(g) + quadratic * x
                x = x - eta * (shares[k] if name in AVERAGED else 1) * velocity
            local[i] = x
            count[i] = sum(shares) if name in AVERAGED else count[i]
            if name in (*VARIANCE_REDUCED, "fedwmsam"):
                fresh[i] = self.c_i[i] - self.c + (w_t - x) / (count[i] * eta)
            if name in DYNAMIC:
                self.h_i[i] = self.h_i[i] + (x - w_t)
            if name == "fedsmoo":
                mu[i] = self.mu_i[i] - (e if p["s"] == "paper" and p["unpacking"] == "paper" else 0)
        self.serve(name, p, eta, w_t, local, count, fresh, mu)
        for i in active:
            self.old[i] = w_t
        self.step = self.w - w_t

    def corrected(self, name, p, i, x, w_t, g):
        """Return (gradient with the corrections that are clipped, factor of the squared norm that is not)."""
        quadratic = self.spec["weight_decay"]
        if name in VARIANCE_REDUCED:
            g = g + (0.1 if p.get("correction") == "official_code" else 1.0) * (self.c - self.c_i[i])
        if name in MOMENTUM:  # FedLESAM's optimizer/ESAM.py takes alpha and ignores it
            g = (1 if "@" in p.get("fresh", "") else p["alpha"]) * g + (1 - p["alpha"]) * self.delta
        if name == "fedwmsam":
            g = self.alpha * (g + self.c - self.c_i[i]) + (1 - self.alpha) * self.delta
        if name == "mimelite":
            g = p["alpha"] * g + (1 - p["alpha"]) * self.momentum
        if name in DYNAMIC:
            distance = "@" in p.get("regulariser", "")  # ||x - w_t|| / 2, of which torch gives 0 where x = w_t
            proximal = 0.0 if name == "fedgmt" or distance else p["penalty"]
            g = g + p["penalty"] * self.h_i[i] - proximal * w_t
            quadratic += proximal
            if distance and (x != w_t).any():
                g = g + p["penalty"] / 2 * (x - w_t) / torch.linalg.norm(x - w_t)
        if name == "fedprox":
            g = g - p["mu"] * w_t
            quadratic += p["mu"]
        return g, quadratic

    def perturbed(self, name, p, t, i, x, w_t, index, k):
        """Return (perturbation or None, gradient at the perturbed point)."""
        if name in LESAM:
            if p["direction"] == "server_step":
                away = -self.step
            elif i in self.old:
                away = self.old[i] - w_t
            else:
                away = -w_t if p["first"] == "paper" else self.zero
            e = self.unpacked(p["unpacking"], away, p["rho"])
        elif name in SAM:
            e = p["rho"] * unit(self.gradient(x, index))
        elif name == "fedsmoo":
            s, faulty = self.s, p["unpacking"] == "FL-Simulator@653ebb5"
            if faulty:  # a client gets the heads of mu_i and s, and sends back an entire vector
                s = self.heads(s)
                self.mu_i[i] = self.heads(self.mu_i[i]) if k == 0 else self.mu_i[i]
            e = p["rho"] * unit(self.gradient(x, index) - self.mu_i[i] - s)
            self.mu_i[i] = self.mu_i[i] + e - s
        elif name == "fedwmsam":
            ahead = w_t + k * (self.delta + self.alpha / (1 - self.alpha) * (self.c - self.c_i[i])) - x
            sign = -1 if "@" in p["unpacking"] else 1
            e = sign * self.unpacked(p["unpacking"], ahead, p["rho"])
        elif name == "fedgmt":
            return None, self.distilled(p, x, index)
        else:
            return None, self.gradient(x, index)
        return e, self.gradient(x + e, index)

    def unpacked(self, unpacking: str, away: torch.Tensor, rho: float) -> torch.Tensor:
        """Return ``away`` at length ``rho``, or what public code makes of it."""
        if unpacking == "FL-SAM@2c16149":
            return rho * unit(self.heads(away))
        if "@" in unpacking:  # tensor number i gets entry i, at rho over the sum of those entries' absolute values
            numbers = away[: len(self.sizes)]
            return torch.repeat_interleave(rho * numbers / (numbers.abs().sum() + 1e-7), torch.tensor(self.sizes))
        return rho * unit(away)

    def heads(self, flat: torch.Tensor) -> torch.Tensor:
        """Give every tensor the head of ``flat``: the unpacking whose index never advances."""
        return torch.cat([flat[:size] for size in self.sizes])

    def distilled(self, p, x, index):
        """FedGMT's gradient, with torch's own losses."""
        tau = p["temperature"]
        target = torch.softmax(self.logits(self.average, self.x[index]).detach() / tau, dim=1)
        logits = self.logits(x, self.x[index])
        divergence = kl_div(torch.log_softmax(logits / tau, dim=1), target, reduction="batchmean")
        return self.slope(self.loss(logits, index) + p["distillation"] * tau**2 * divergence)

    def robust_client(self, p, i, x, index_list, eta):
        """FedRobust's client: simultaneous descent in the model and ascent in scale and shift."""
        shape = self.x.shape[1:] if p["affine"] == "diagonal" else (self.x.shape[1], 1, 1)
        a, b = self.shifts.get(i, (torch.zeros(shape).double(), torch.zeros(shape).double()))
        for index in index_list:
            a.requires_grad_(), b.requires_grad_()
            loss = self.loss(self.logits(x, (1 + a) * self.x[index] + b), index)
            g, (g_a, g_b) = self.slope(loss), torch.autograd.grad(loss, [a, b])
            a = (a + p["ascent"] * eta * (g_a - 2 * p["scale_penalty"] * a)).detach()
            b = (b + p["ascent"] * eta * (g_b - 2 * p["shift_penalty"] * b)).detach()
            x = x - eta * (self.clipped(g) + self.spec["weight_decay"] * x)
        self.shifts[i] = a, b
        return x

    def serve(self, name, p, eta, w_t, local, count, fresh, mu) -> None:
        """The server's step."""
        n = len(local)
        mean = sum(local.values()) / n
        change = mean - w_t
        eta_g = p.get("server_learning_rate", 1.0)
        direction = -sum((local[i] - w_t) / (count[i] * eta) for i in local) / n
        if name == "fedspeed" and p["average"] == "active_clients":
            self.w = sum(local[i] + self.h_i[i] for i in local) / n
        elif name in DYNAMIC:
            self.w = mean + sum(self.h_i.values()) / self.m
        elif name == "fedadam":
            self.first = p["beta1"] * self.first + (1 - p["beta1"]) * change
            self.second = p["beta2"] * self.second + (1 - p["beta2"]) * change**2
            self.w = w_t + eta_g * self.first / (self.second.sqrt() + p["tau"])
        elif name in (*MOMENTUM, "fedwmsam") and p["scaling"] == "paper":
            self.w = w_t - eta_g * direction
        else:
            self.w = w_t + eta_g * change
        if name == "fedwmsam" and self.delta.any():
            cosines = [torch.cosine_similarity(x - w_t, self.delta, dim=0) for x in local.values()]
            a = float(sum(cosines)) / n + (p["target"] == "official_code")
            self.alpha = (1 - p["adaptation"]) * self.alpha + p["adaptation"] * min(max(a, 0.1), 0.9)
        elif name == "fedwmsam":
            self.alpha = (1 - p["adaptation"]) * self.alpha + p["adaptation"] * 0.1
        if name == "fedgmt":
            self.average = p["average"] * self.average + (1 - p["average"]) * self.w
        self.delta = direction
        if name == "fedmoswa":
            self.c = self.c + p["adaptation"] * sum(new - self.c for new in fresh.values()) / n
            self.c_i |= fresh
            return
        for i, new in fresh.items():
            self.c = self.c + (new - self.c_i[i]) / self.m
            self.c_i[i] = new
        if name == "mimelite":
            full = sum(self.gradient(w_t, self.members[i]) for i in local) / n
            self.momentum = p["alpha"] * full + (1 - p["alpha"]) * self.momentum
        if name == "fedsmoo":
            self.s = p["rho"] * unit(sum(mu.values()) / n)


class Peers(Server):
    """Algorithms without a server: every node has a model of its own, ``x_i``; ``w`` is their mean."""

    def run(self, name: str, p: dict, rounds: int) -> torch.Tensor:
        """Run ``rounds`` rounds; return the mean of the nodes' models."""
        graph, self.x_i = self.topology(), {i: self.w.clone() for i in range(self.m)}
        for t in range(rounds):
            if name == "dpsgd" and p["order"] == "official_code":
                self.mix(graph.mixing(t))
            before = dict(self.x_i)
            for i in self.active(t):
                self.x_i[i] = self.node(name, p, i, t, self.rates[t])
            if name == "dpsgd" and p["order"] == "paper":
                steps = {i: self.x_i[i] - before[i] for i in self.x_i}
                self.x_i = before
                self.mix(graph.mixing(t))
                self.x_i = {i: self.x_i[i] + steps[i] for i in self.x_i}
            elif name != "dpsgd":
                for q in range(p.get("gossip_steps", 1)):
                    self.mix(graph.mixing(t, q))
        self.w = sum(self.x_i.values()) / self.m
        return self.w

    def mix(self, matrix: np.ndarray) -> None:
        """x_i <- sum_l w_il x_l."""
        self.x_i = {i: sum(matrix[i, j] * self.x_i[j] for j in range(self.m) if matrix[i, j]) for i in range(self.m)}

    def node(self, name, p, i, t, eta):
        """Return node i's model after its local steps."""
        x, velocity = self.x_i[i].clone(), self.zero.clone()
        for index in self.batches(i, t):
            g = self.gradient(x, index)
            if name in ("dfedsam", "dfedsam_mgs"):
                g = self.gradient(x + p["rho"] * unit(g), index)
            d = self.clipped(g) + self.spec["weight_decay"] * x
            if name == "dfedavgm":
                velocity = p["momentum"] * velocity + d
                d = velocity
            x = x - eta * d
        return x


def implementation(name: str) -> type[Server]:
    """Return the class that implements algorithm ``name``."""
    if name == "dispfl":
        from second_dispfl import SparsePeers

        return SparsePeers
    return Peers if algorithms.load(name).decentralised else Server
