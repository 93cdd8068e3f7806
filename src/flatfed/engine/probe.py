"""How sharp the global loss is, and how far local perturbations are from the global one, along the way.

A probe looks at the model w^t between two rounds and changes nothing: it works on copies, and random streams are keyed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from flatfed.algorithms._rows import along
from flatfed.engine.streams import stream

if TYPE_CHECKING:
    from flatfed.engine.simulation import Simulation


class Probe:
    """Measures a simulation before its first round, every ``every`` rounds and after its last.

    F is the loss on ``images`` of the clients' training images, drawn once, keyed by the seed.

    ``sharpness``: F(w + rho g / ||g||) - F(w), g the gradient of the loss F on those images: one step of ascent to the
    radius rho (FedLESAM section 2.2 leaves radius and estimate open). ``m_sharpness``: the mean of the same over
    batches of ``m`` images, each with its own ascent (Foret et al. 2021). ``perturbation_drift``: FedLESAM section 4.1,

        PD^t = 1/(2 K E) sum_k sum_i || delta_{g,k} - delta_{i,k} ||,

    with unit vectors, so that it lies between 0 and 1: delta_{i,k} the direction of client i's perturbation at local
    step k, delta_{g,k} that of the gradient of F at the virtual global model w^t - eta_g mean_i (w^t - w_{i,k}). The
    round's active clients are stepped in lock step, with the batches that they are about to train on; clients that end
    early count with the steps they have, and those that do not perturb (FedLESAM's first participation) not at all.
    None for algorithms that do not perturb, and without a server.
    """

    def __init__(self, spec: dict[str, Any], simulation: Simulation):
        self.every, self.rho, self.m = spec["every"], spec["rho"], spec["m"]
        self.run = simulation
        everything = np.concatenate(simulation.members)
        count = min(spec["images"], len(everything))
        chosen = stream(simulation.seed, "subset").choice(everything, count, replace=False)
        self.images = torch.from_numpy(np.sort(chosen)).to(simulation.device)

    def due(self) -> bool:
        """Return whether to look before the coming round: the first, and every so many after it."""
        return self.run.round % self.every == 0

    def __call__(self, order: np.ndarray, rate: Tensor) -> dict[str, float | None]:
        """Return round (finished ones), the three measures and the seconds that they took.

        ``order`` (n,) the clients of the coming round, none after the last; ``rate`` its learning rate.
        """
        began = time.monotonic()
        w = self.run.server["w"]
        sharp = self.sharpness(w, self.images)
        parts = self.images.split(self.m)
        mean = sum(len(part) * self.sharpness(w, part) for part in parts) / len(self.images)
        drift = self.drift(order, rate) if len(order) and not self.run.algorithm.decentralised else None
        seconds = round(time.monotonic() - began, 3)
        return {
            "round": self.run.round,
            "sharpness": sharp,
            "m_sharpness": mean,
            "perturbation_drift": drift,
            "seconds": seconds,
        }

    def sharpness(self, w: Tensor, images: Tensor) -> float:
        """Return the rise of the mean loss on ``images`` (n,) from ``w`` (1, parameters) to radius rho uphill."""
        higher = w + along(self._gradient(w, images), self.rho)
        return self.run.evaluate.hits(higher[0], images)[0] - self.run.evaluate.hits(w[0], images)[0]

    def drift(self, order: np.ndarray, rate: Tensor) -> float | None:
        """Return PD^t of the clients ``order``; None where the algorithm does not perturb."""
        run = self.run
        rows = {name: value.clone() for name, value in run.state.gather(order).items()}
        w, ctx = run.open(order, rate, rows)
        total, count = torch.zeros((2, 1), dtype=torch.float64, device=w.device)
        share = getattr(run.algorithm, "server_learning_rate", 1.0)

        def look(e: Tensor | None) -> None:
            if e is not None:
                models = w[:, : run.layout.size]
                virtual = torch.lerp(run.server["w"], models.mean(dim=0, keepdim=True), share)
                own = _direction(e[:, : run.layout.size])
                away = (_direction(self._gradient(virtual, self.images)) - own).norm(dim=1)
                perturbs = own.any(dim=1)
                total.add_((away * perturbs).sum() / 2)
                count.add_(perturbs.sum())

        run.local.train(w, run.plan(order), ctx, look)
        return float(total) / float(count) if count else None

    def _gradient(self, w: Tensor, images: Tensor) -> Tensor:
        """Return the gradient (1, parameters) of the mean loss on ``images`` (n,) at ``w`` (1, parameters)."""
        private = torch.zeros(1, self.run.private, dtype=w.dtype, device=w.device)
        full = self.run.local.full_gradient(
            torch.cat([w, private], dim=1), [images], self.run.description["evaluation"]["batch_size"]
        )
        return full[:, : self.run.layout.size]


def _direction(rows: Tensor) -> Tensor:
    """Return every row divided by its norm, zero where it is zero."""
    return torch.nn.functional.normalize(rows, dim=1, eps=torch.finfo(rows.dtype).tiny)
