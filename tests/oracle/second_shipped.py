"""How the public codes of the algorithms really behave, in plain float64 tensors: dictionaries of flat vectors, loops.

Written from the foreign repositories alone: FL-Simulator 653ebb5 (before its repair) and 502bec6, FedLESAM d6663cc,
FL-SAM 2c16149, FedScar d347eeb, FedWMSAM a922a1d. What every case shares is the project's set-up, not theirs: plain
SGD, one clip of the gradient of the entire loss, weight decay after it, an unweighted mean, K the true number of a
client's local steps.

What the codes do besides and these cases leave out:

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
from second import Problem

EPSILON = 1e-7  # added to every norm that a perturbation, or FedSMOO's s, is divided by


def scaled(v: torch.Tensor, rho: float) -> torch.Tensor:
    """Return ``v`` at length ``rho``."""
    return rho * v / (v.norm() + EPSILON)


class Point:
    """Where a client takes its gradient: at its weights plus ``e``. With ``e`` left at 0, FedDyn's rule."""

    def __init__(self, reference: Problem, p: dict):
        self.reference = reference
        self.p = p
        self.sizes = [tensor.numel() for tensor in reference.model.parameters()]
        self.e = torch.zeros_like(reference.w)

    def start(self, client: int, w: torch.Tensor) -> None:
        """``client`` has received the model ``w``."""

    def gradient(self, w: torch.Tensor, batch: np.ndarray) -> torch.Tensor:
        """Return the gradient of the cross-entropy for a local step from ``w``."""
        return self.reference.gradient(w + self.e, batch)

    def end_round(self, clients: list[int], old: torch.Tensor, new: torch.Tensor) -> None:
        """The round of ``clients`` has moved the server's model from ``old`` to ``new``."""

    def heads(self, flat: torch.Tensor) -> torch.Tensor:
        """Give every tensor the head of ``flat``: the unpacking whose index never moves on."""
        return torch.cat([flat[:size] for size in self.sizes])

    def by_number(self, flat: torch.Tensor) -> torch.Tensor:
        """Give tensor number i entry i of ``flat``, at rho over the sum of those numbers' absolute values."""
        numbers = flat[: len(self.sizes)]
        shares = self.p["rho"] * numbers / (numbers.abs().sum() + EPSILON)
        return torch.repeat_interleave(shares, torch.tensor(self.sizes))


class Ascent(Point):
    """The perturbation of SAM: FedSpeed and MoFedSAM. It follows the cross-entropy alone, without clip."""

    def gradient(self, w: torch.Tensor, batch: np.ndarray) -> torch.Tensor:
        self.e = scaled(self.reference.gradient(w, batch), self.p["rho"])
        return super().gradient(w, batch)


class Smoo(Point):
    """FedSMOO as FL-Simulator has it: optimizer/DRegSAM.py, server/FedSMOO.py.

    e = rho (g - mu_i - s) / (norm + 1e-7), then mu_i <- mu_i + e - s at every local step. After the round, s is a mean
    of the active clients at length rho: of mu_i in FL-Simulator, of mu_i - last e in FL-SAM (there without epsilon).
    """

    def __init__(self, reference: Problem, p: dict):
        super().__init__(reference, p)
        self.mu = {client: torch.zeros_like(reference.w) for client in range(reference.m)}
        self.s, self.last = torch.zeros_like(reference.w), {}

    def start(self, client: int, w: torch.Tensor) -> None:
        self.client, self.s_here = client, self.s

    def gradient(self, w: torch.Tensor, batch: np.ndarray) -> torch.Tensor:
        mu = self.mu[self.client]
        self.e = scaled(self.reference.gradient(w, batch) - mu - self.s_here, self.p["rho"])
        self.mu[self.client], self.last[self.client] = mu + self.e - self.s_here, self.e
        return super().gradient(w, batch)

    def end_round(self, clients: list[int], old: torch.Tensor, new: torch.Tensor) -> None:
        less = {"official_code": 0.0, "paper": 1.0}[self.p["s"]]
        parts = [self.mu[client] - less * self.last[client] for client in clients]
        self.s = scaled(torch.stack(parts).mean(0), self.p["rho"])


class FaultySmoo(Smoo):
    """FedSMOO before the repair: a client gets the heads of mu_i and s, and sends back an entire vector.

    As on a GPU, where every unpacked tensor is a copy. On a CPU the unpacked mu_i are views of the same numbers, so
    that each tensor's step changes the others too (utils.py line 37: ``.to(device)`` copies only between devices).
    """

    def __init__(self, reference: Problem, p: dict):
        super().__init__(reference, {**p, "s": "official_code"})  # that server knows no other s

    def start(self, client: int, w: torch.Tensor) -> None:
        self.client, self.s_here = client, self.heads(self.s)
        self.mu[client] = self.heads(self.mu[client])


class ScalarShift(Point):
    """FedLESAM: tensor number i is shifted by one number, entry i of the flat update (optimizer/LESAM*.py).

    The server sends new - old (server's learning rate or mean dual included) and the client takes minus that, so the
    shift is along old - new. It is divided by the sum of those numbers' absolute values; as each is spread over its
    tensor, the shift is not of length rho. The first round sends None: no shift.
    """

    def end_round(self, clients: list[int], old: torch.Tensor, new: torch.Tensor) -> None:
        self.e = self.by_number(old - new)


class HeadShift(Point):
    """FedScar: every tensor is shifted along the head of the flat old - new (servers/serverlesam*.py).

    utils/lesam_utils.py divides by the norm of the pieces' norms, so the norm of all pieces together, + 1e-7, and adds
    the shift with its sign. The first round sends zeros. FL-SAM's FedLESAM-D, the only one it has, agrees in all that.
    """

    def end_round(self, clients: list[int], old: torch.Tensor, new: torch.Tensor) -> None:
        self.e = scaled(self.heads(old - new), self.p["rho"])


class OwnShift(Point):
    """Along (model received last time) - (model received now). FL-SAM's own shift is HeadShift, for new clients too."""

    def __init__(self, reference: Problem, p: dict):
        super().__init__(reference, p)
        self.received = {}

    def start(self, client: int, w: torch.Tensor) -> None:
        self.e = scaled(self.received.get(client, w) - w, self.p["rho"])
        self.received[client] = w


class Trajectory(Point):
    """FedWMSAM: tensor number i is shifted by one number, against entry i of w_t + k * momentum - w; alpha * gradient.

    The round sets ``alpha`` and, for each client, the ``momentum``.
    """

    def start(self, client: int, w: torch.Tensor) -> None:
        self.received, self.k = w, 0

    def gradient(self, w: torch.Tensor, batch: np.ndarray) -> torch.Tensor:
        self.e = -self.by_number(self.received + self.k * self.momentum - w)
        self.k += 1
        return self.alpha * super().gradient(w, batch)


class Shipped(Problem):
    """The problem of a description, trained as a public code does; ``CASES`` lists what there is."""

    def run(self, case: str, p: dict, rounds: int) -> torch.Tensor:
        """Return the server's model (parameters,) after ``rounds`` rounds; ``p["penalty"]``: their lamb or 1/beta."""
        server, point, options = CASES[case]
        return server(self, point(self, p), p, rounds, **options)

    def averaging(self, point: Point, p: dict, rounds: int) -> torch.Tensor:
        """FedLESAM: w + server learning rate * mean update."""
        w = self.w
        for t in range(rounds):
            w = self.moved(w, {client: self.train(client, t, w, point) for client in self.active(t)}, p, point)
        return w

    def control_variates(self, point: Point, p: dict, rounds: int) -> torch.Tensor:
        """FedLESAM-S: SCAFFOLD whose local correction is c - c_i, in the official code times 0.1.

        c_i <- c_i - c - update / (K eta) and c <- c + (sum of the c_i's changes) / (all clients) have no such factor.
        """
        factor = {"official_code": 0.1, "paper": 1.0}[p["correction"]]  # 0.1: --lamb's default, train.py line 48
        w, c = self.w, torch.zeros_like(self.w)
        own = {client: torch.zeros_like(w) for client in range(self.m)}
        for t in range(rounds):
            models, renewed = {}, {}
            for client in self.active(t):
                models[client] = self.train(client, t, w, point, linear=factor * (c - own[client]))
                renewed[client] = own[client] - c + self.mean_step(client, t, w, models[client])
            c = c + sum(renewed[client] - own[client] for client in renewed) / self.m
            own.update(renewed)
            w = self.moved(w, models, p, point)
        return w

    def momentum(self, point: Point, p: dict, rounds: int) -> torch.Tensor:
        """MoFedSAM of FedLESAM: gradient + (1 - alpha) Delta, clipped together; Delta is 0 in the first round.

        FedLESAM's optimizer/ESAM.py takes alpha and ignores it; FL-Simulator's (line 65) multiplies the loss by it.
        """
        w, delta = self.w, torch.zeros_like(self.w)
        for t in range(rounds):
            models = {client: self.train(client, t, w, point, (1 - p["alpha"]) * delta) for client in self.active(t)}
            delta = torch.stack([self.mean_step(client, t, w, model) for client, model in models.items()]).mean(0)
            w = self.moved(w, models, p, point)
        return w

    def duals(self, point: Point, p: dict, rounds: int, distance: bool) -> torch.Tensor:
        """FedDyn's frame: h_i <- h_i + update, w <- mean model + mean of all clients' h_i, no server learning rate.

        ``distance``: the loss has penalty (<w, h_i> + ||w - w_t|| / 2), as in FL-SAM. Otherwise it has
        penalty <w, h_i - w_t>, and SGD decays the weights by ``penalty`` on top: the squared term, half of it clipped.
        """
        w, penalty = self.w, p["penalty"]
        h = {client: torch.zeros_like(w) for client in range(self.m)}
        for t in range(rounds):
            pull, decay, anchor = (penalty / 2, 0.0, 0.0) if distance else (0.0, penalty, w)
            models = {}
            for client in self.active(t):
                models[client] = self.train(client, t, w, point, penalty * (h[client] - anchor), pull, decay)
            h.update({client: h[client] + model - w for client, model in models.items()})
            new = torch.stack(list(models.values())).mean(0) + sum(h.values()) / self.m
            point.end_round(list(models), w, new)
            w = new
        return w

    def weighted_momentum(self, point: Trajectory, p: dict, rounds: int) -> torch.Tensor:
        """FedWMSAM: c_i as in SCAFFOLD; the momentum of client i is Delta + alpha / (1 - alpha) (c - c_i)."""
        w, alpha = self.w, p["alpha"]
        c, delta, own = torch.zeros_like(w), torch.zeros_like(w), w.new_zeros(self.m, len(w))
        for t in range(rounds):
            models, c_then, point.alpha = {}, c, alpha
            for client in self.active(t):
                point.momentum = delta + alpha / (1 - alpha) * (c_then - own[client])
                models[client] = self.train(client, t, w, point, linear=(1 - alpha) * point.momentum)
                change = self.mean_step(client, t, w, models[client]) - c_then
                own[client], c = own[client] + change, c + change / self.m
            follows = [float(torch.cosine_similarity(v - w, delta, dim=0)) + bool(delta.any()) for v in models.values()]
            alpha += p["adaptation"] * (min(max(sum(follows) / len(follows), 0.1), 0.9) - alpha)
            delta = torch.stack([self.mean_step(client, t, w, v) for client, v in models.items()]).mean(0)
            w = self.moved(w, models, p, point)
        return w

    def train(self, client: int, t: int, w: torch.Tensor, point: Point, linear=0.0, pull=0.0, decay=0.0):
        """Return the client's model (parameters,) after its local steps of round ``t`` from ``w``.

        In the loss and clipped with it: a linear term of gradient ``linear``, and ``pull`` * ||v - w||, of which torch
        gives the gradient 0 where v = w. After the clip: ``decay`` and the description's weight decay.
        """
        point.start(client, w)
        v = w
        for batch in self.batches(client, t):
            away = v - w
            unit = away / away.norm() if away.norm() > 0 else away
            slope = self.clipped(point.gradient(v, batch) + linear + pull * unit)
            v = v - self.rates[t] * (slope + (self.spec["weight_decay"] + decay) * v)
        return v

    def moved(self, w: torch.Tensor, models: dict[int, torch.Tensor], p: dict, point: Point) -> torch.Tensor:
        """Return the server's model after a round whose clients arrived at ``models``."""
        new = w + p.get("server_learning_rate", 1.0) * torch.stack([model - w for model in models.values()]).mean(0)
        point.end_round(list(models), w, new)
        return new

    def mean_step(self, client: int, t: int, w: torch.Tensor, model: torch.Tensor) -> torch.Tensor:
        """Return -update / (K eta): the client's mean local step of round ``t``."""
        return (w - model) / (len(self.batches(client, t)) * self.rates[t])


CASES = {
    "fedsmoo/FL-Simulator@653ebb5": (Shipped.duals, FaultySmoo, {"distance": False}),
    "fedlesam/FedLESAM@d6663cc": (Shipped.averaging, ScalarShift, {}),
    "fedlesam_s/FedLESAM@d6663cc": (Shipped.control_variates, ScalarShift, {}),
    "fedlesam_d/FedLESAM@d6663cc": (Shipped.duals, ScalarShift, {"distance": False}),
    "mofedsam/FedLESAM@d6663cc": (Shipped.momentum, Ascent, {}),
    "fedlesam/FedScar@d347eeb": (Shipped.averaging, HeadShift, {}),
    "fedlesam_s/FedScar@d347eeb": (Shipped.control_variates, HeadShift, {}),
    "fedlesam_d/FedScar@d347eeb": (Shipped.duals, HeadShift, {"distance": False}),
    "feddyn/FL-SAM@2c16149": (Shipped.duals, Point, {"distance": True}),
    "fedspeed/FL-SAM@2c16149": (Shipped.duals, Ascent, {"distance": True}),
    "fedsmoo/FL-SAM@2c16149": (Shipped.duals, Smoo, {"distance": True}),
    "fedlesam_d/FL-SAM@2c16149": (Shipped.duals, OwnShift, {"distance": True}),
    "fedwmsam/FedWMSAM@a922a1d": (Shipped.weighted_momentum, Trajectory, {}),
}
