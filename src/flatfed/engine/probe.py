"""How sharp the global loss is, and how far local perturbations are from the global one, along the way.

A probe looks at the model w^t between two rounds and changes nothing: it works on copies, and random streams are keyed.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from flatfed.algorithms import Algorithm
from flatfed.algorithms._rows import along
from flatfed.data.streams import stream
from flatfed.engine import batches
from flatfed.engine.full_gradient import full_gradient
from flatfed.files import digest_arrays

if TYPE_CHECKING:
    from flatfed.engine.context import Context, Gradient
    from flatfed.engine.simulation import Simulation


class ObservedPerturbation:
    """An ``algorithm`` whose perturbations go to ``look`` before the models move."""

    def __init__(self, algorithm: Algorithm, look: Callable[[Tensor | None], None]):
        self.algorithm, self.look = algorithm, look

    def __getattr__(self, name: str) -> Any:
        return getattr(self.algorithm, name)

    def perturbation(self, w: Tensor, gradient: Gradient, ctx: Context) -> Tensor | None:
        """Return the algorithm's perturbation."""
        e = self.algorithm.perturbation(w, gradient, ctx)
        self.look(e)
        return e


class Probe:
    """Measures a simulation before its first round, every ``every`` rounds and after its last.

    F is the mean loss on ``images`` of the clients' training images, drawn once, keyed by the seed: runs of one seed on
    one deal, at several clients or at one place, have the same images and the same F. Of clients with equally many
    images it is an estimate of FedLESAM's F = 1/N sum_i F_i.

    ``sharpness``: F(w + rho g / ||g||) - F(w), g the gradient of F at w: one step of ascent to the radius rho, and so a
    lower bound of max F(w + e) - F(w) over ||e|| <= rho (FedLESAM section 2.2 leaves radius and estimate open).
    ``m_sharpness``: the mean of the same over batches of ``m`` images, each with its own ascent (Foret et al. 2021).
    ``perturbation_drift``: FedLESAM section 4.1,

        PD^t = 1/(2 K E) sum_k sum_i || delta_{g,k} - delta_{i,k} ||,

    over the K active clients i and their E local steps k, with unit vectors, so that it lies between 0 and 1.
    delta_{i,k} is the direction of client i's perturbation; of a step that does not perturb (FedLESAM's first
    participation) it is 0, which is at distance 1 of any direction: the step counts as 1/2. delta_{g,k} is the
    direction of the gradient of F at the virtual global model

        w_{g,k} = w^t - eta_g 1/N sum_i (w^t - w_{i,k}),   over all N clients.

    Clients that are not active have no w_{i,k} in the run. The probe steps all N from w^t, each with the state that it
    has, on the batches that it would see if it took part in the coming round. A client that ends early stays where it
    ended, and counts with the steps that it has. None for algorithms that do not perturb, without a server, and where
    all data are at one place.

    Looking takes memory for a round's block of clients and, for the drift, for one model a local step more. What it
    returns holds ``images_sha256``, which names the images, by their sorted positions.
    """

    def __init__(self, spec: dict[str, Any], simulation: Simulation):
        self.every, self.rho, self.m = spec["every"], spec["rho"], spec["m"]
        self.run = simulation
        everything = np.concatenate(simulation.members)
        count = min(spec["images"], len(everything))
        chosen = np.sort(stream(simulation.seed, "subset").choice(everything, count, replace=False))
        self.digest = digest_arrays(images=chosen)
        self.images = torch.from_numpy(chosen).to(simulation.device)
        algorithm = simulation.algorithm
        perturbs = type(algorithm).perturbation is not Algorithm.perturbation
        self.drifts = perturbs and not algorithm.decentralised and not algorithm.central

    def due(self) -> bool:
        """Return whether to look before the coming round: the first, and every so many after it."""
        return self.run.round % self.every == 0

    def look(self, order: np.ndarray | None = None) -> None:
        """Add the measures to the run's ``probes``, unless that was done before a stop.

        ``order`` (n,): the clients of the coming round, None after the last.
        """
        if not (self.run.probes and self.run.probes[-1]["round"] == self.run.round):
            self.run.probes.append(self.measured(order))

    def measured(self, order: np.ndarray | None = None) -> dict[str, Any]:
        """Return round (finished ones), the three measures, what they are of and the seconds that they took.

        Arguments are those of :meth:`look`. A measure that is no number is None: a run that diverges has such before
        its loss shows it.
        """
        began = time.monotonic()
        w = self.run.server["w"]
        sharp = self.sharpness(w, self.images)
        parts = self.images.split(self.m)
        mean = sum(len(part) * self.sharpness(w, part) for part in parts) / len(self.images)
        drift = self.drift(order) if order is not None and self.drifts else None
        seconds = round(time.monotonic() - began, 3)
        return {
            "round": self.run.round,
            **{
                name: value if value is not None and math.isfinite(value) else None
                for name, value in (("sharpness", sharp), ("m_sharpness", mean), ("perturbation_drift", drift))
            },
            "images_sha256": self.digest,
            "seconds": seconds,
        }

    def sharpness(self, w: Tensor, images: Tensor) -> float:
        """Return the rise of the mean loss on ``images`` (n,) from ``w`` (1, parameters) to radius rho uphill."""
        higher = w + along(self._gradient(w, images), self.rho)
        return self.run.evaluate.hits(higher[0], images)[0] - self.run.evaluate.hits(w[0], images)[0]

    def drift(self, order: np.ndarray) -> float:
        """Return PD^t of the active clients ``order``."""
        size = self.run.block(len(order))
        directions = self._global_directions(size)
        total, steps = torch.zeros((), dtype=torch.float64, device=directions.device), 0

        def look(step: int, models: Tensor, e: Tensor) -> None:
            nonlocal steps
            total.add_((directions[step] - _direction(e)).norm(dim=1).sum())
            steps += len(e)

        for part in np.split(order, range(size, len(order), size)):
            self._run_copies(part, look)
        return float(total) / (2 * steps)

    def _global_directions(self, size: int) -> Tensor:
        """Return (steps, parameters) delta_{g,k}, after stepping all clients, ``size`` at a time."""
        run = self.run
        everybody = batches.by_length(np.arange(run.clients), run.sizes, run.schedule)
        w = run.server["w"]
        path = torch.zeros(run.schedule.count(int(run.sizes[everybody[0]])), w.shape[1], dtype=w.dtype, device=w.device)

        def add(step: int, models: Tensor, e: Tensor) -> None:
            path[step] += models.sum(dim=0)

        for part in np.split(everybody, range(size, run.clients, size)):
            models, length = self._run_copies(part, add)
            path[length:] += models.sum(dim=0)
        share = getattr(run.algorithm, "server_learning_rate", 1.0)
        for model in path:
            virtual = torch.lerp(w, model[None] / run.clients, share)
            model.copy_(_direction(self._gradient(virtual, self.images))[0])
        return path

    def _run_copies(
        self, clients: np.ndarray, look: Callable[[int, Tensor, Tensor], None]
    ) -> tuple[Tensor, int]:
        """Step copies of ``clients`` through the coming round; return their models (n, parameters) and its steps.

        ``look`` gets the number of each step, the models before it, and the perturbations (rows, parameters) of the
        rows that still train, zero for none.
        """
        run, size = self.run, self.run.layout.size
        w, ctx = run.begin_clients(clients, {name: value.clone() for name, value in run.state.gather(clients).items()})
        plan, numbers = run.plan(clients), itertools.count()

        def look_at(e: Tensor | None) -> None:
            step = next(numbers)
            look(step, w[:, :size], w.new_zeros(plan.rows(step), size) if e is None else e[:, :size])

        plain = run.local_update.plain
        replace(plain, algorithm=ObservedPerturbation(plain.algorithm, look_at)).run(w, plan, ctx)
        return w[:, :size], plan.length

    def _gradient(self, w: Tensor, images: Tensor) -> Tensor:
        """Return the gradient (1, parameters) of the mean loss on ``images`` (n,) at ``w`` (1, parameters)."""
        private = torch.zeros(1, self.run.private, dtype=w.dtype, device=w.device)
        return full_gradient(self.run, torch.cat([w, private], dim=1), [images])[:, : self.run.layout.size]


def _direction(rows: Tensor) -> Tensor:
    """Return every row divided by its norm, zero where it is zero."""
    return torch.nn.functional.normalize(rows, dim=1, eps=torch.finfo(rows.dtype).tiny)
