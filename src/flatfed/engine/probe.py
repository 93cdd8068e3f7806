"""Sharpness of the global loss and drift of local perturbations, measured on copies between rounds."""

from __future__ import annotations

import copy
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatfed.algorithms._layout import FRONT
from flatfed.algorithms._rows import along
from flatfed.data.streams import stream
from flatfed.engine import batches, hooks
from flatfed.engine.callbacks import Callback
from flatfed.engine.simulation import Simulation
from flatfed.files import digest_arrays


class Probe(Callback):
    """Measures a simulation before its first round, every ``every`` rounds and after its last round: ``measures``.

    ``every``, ``images``, ``rho`` and ``m`` are those of the run's ``probe``.

    F is the mean loss on ``images`` training images, drawn with the seed's key, an estimate of FedLESAM's F = 1/N sum_i
    F_i if clients have equally many images.

    ``sharpness``: F(w + rho g / ||g||) - F(w) with g = grad F(w), a lower bound of max F(w + e) - F(w) over ||e|| <=
    rho (FedLESAM section 2.2 does not define its estimate). ``m_sharpness``: its mean over batches of ``m`` images,
    each with its own ascent (Foret et al. 2021). ``perturbation_drift``: FedLESAM section 4.1,

        PD^t = 1/(2 K E) sum_k sum_i || delta_{g,k} - delta_{i,k} ||,

    over the K active clients i and their E local steps k, between 0 and 1. The unit vector delta_{i,k} is the direction
    of client i's perturbation, or 0 without one. delta_{g,k} is the direction of grad F at the virtual global model

        w_{g,k} = w^t - eta_g 1/N sum_i (w^t - w_{i,k}),   over all N clients.

    The probe trains copies of all N clients from w^t on their batches of the coming round and stores one model per
    local step. A client with fewer steps keeps its last model. The drift is None without perturbation, without a server
    and for centralised training.
    """

    def __init__(self):
        self.measures: list[dict[str, float | str | None]] = []

    def before_round(self, simulation: Simulation, clients: np.ndarray) -> None:
        if simulation.round % simulation.config.probe.every == 0:
            self._add(simulation, clients)

    def finish(self, simulation: Simulation) -> None:
        if simulation.round == simulation.config.rounds:
            self._add(simulation)

    def state(self) -> list[dict[str, float | str | None]]:
        return self.measures

    def restore(self, state: list[dict[str, float | str | None]]) -> None:
        self.measures[:] = state

    def _add(self, simulation: Simulation, clients: np.ndarray | None = None) -> None:
        """Measure, unless an earlier session did."""
        if not (self.measures and self.measures[-1]["round"] == simulation.round):
            self.measures.append(measure(simulation, clients))


def measure(simulation: Simulation, clients: np.ndarray | None = None) -> dict[str, float | str | None]:
    """Return round, measures (None if not finite), digest and seconds.

    ``clients`` (n,): those of the coming round, if any.
    """
    began = time.monotonic()
    w, algorithm, images = simulation.server["w"], simulation.algorithm, images_of(simulation)
    parts = images.split(simulation.config.probe.m)
    perturbs = hooks.overrides(algorithm, "perturbation") and not algorithm.decentralised and not algorithm.central
    values = {
        "sharpness": sharpness(simulation, w, images),
        "m_sharpness": sum(len(part) * sharpness(simulation, w, part) for part in parts) / len(images),
        "perturbation_drift": drift(simulation, clients) if clients is not None and perturbs else None,
    }
    return {
        "round": simulation.round,
        **{name: value if value is not None and math.isfinite(value) else None for name, value in values.items()},
        "images_sha256": digest_arrays(images=images.cpu().numpy()),
        "seconds": round(time.monotonic() - began, 3),
    }


def images_of(simulation: Simulation) -> Tensor:
    """Return the indices (n,) of the images of F."""
    members = np.concatenate(simulation.members)
    count = min(simulation.config.probe.images, len(members))
    images = np.sort(stream(simulation.seed, "subset").choice(members, count, replace=False))
    return torch.from_numpy(images).to(simulation.device)


def sharpness(simulation: Simulation, w: Tensor, images: Tensor) -> float:
    """Return the rise of the mean loss on ``images`` (n,) from ``w`` (1, parameters) over rho uphill."""
    gradient = _gradient(simulation, w, images, own_loss=None, label_smoothing=0.0)
    higher = w + along(gradient, simulation.config.probe.rho)
    return simulation.evaluate.hits(higher[0], images)[0] - simulation.evaluate.hits(w[0], images)[0]


def drift(simulation: Simulation, clients: np.ndarray) -> float:
    """Return the perturbation drift of ``clients`` in the coming round."""
    size = simulation.block(len(clients))
    directions = _global_directions(simulation, size)
    total, steps = torch.zeros((), dtype=torch.float64, device=directions.device), 0

    def observe(step: int, models: Tensor, e: Tensor) -> None:
        nonlocal steps
        total.add_((directions[step] - _direction(e)).norm(dim=1).sum())
        steps += len(e)

    for part in np.split(clients, range(size, len(clients), size)):
        _run_copies(simulation, part, observe)
    return float(total) / (2 * steps)


def _global_directions(simulation: Simulation, size: int) -> Tensor:
    """Return delta_{g,k} (steps, parameters); ``size`` clients train at a time."""
    count, sizes, schedule = simulation.client_count, simulation.sizes, simulation.schedule
    clients = batches.longest_first(np.arange(count), sizes, schedule)
    w = simulation.server["w"]
    path = w.new_zeros(schedule.count(int(sizes[clients[0]])), w.shape[1])

    def add(step: int, models: Tensor, e: Tensor) -> None:
        path[step] += models.sum(dim=0)

    for part in np.split(clients, range(size, count, size)):
        models, length = _run_copies(simulation, part, add)
        path[length:] += models.sum(dim=0)
    images, share = images_of(simulation), getattr(simulation.algorithm, "server_learning_rate", 1.0)
    for model in path:
        virtual = torch.lerp(w, model[None] / count, share)
        model.copy_(_direction(_gradient(simulation, virtual, images))[0])
    return path


def _run_copies(
    simulation: Simulation, clients: np.ndarray, observe: Callable[[int, Tensor, Tensor], None]
) -> tuple[Tensor, int]:
    """Train copies of ``clients`` through the coming round; return their models (n, parameters) and step count.

    ``observe`` receives the step's number, the models before it, and the perturbations (rows, parameters) or zeros.
    """
    rows = simulation.gather(clients)
    w, ctx = simulation.begin_clients(clients, {name: values.to(simulation.device) for name, values in rows.items()})
    plan, numbers, plain = simulation.plan(clients), itertools.count(), simulation.local_update.plain
    observed = copy.copy(plain.algorithm)

    def perturbation(*arguments: Any) -> Tensor | None:
        e, step = plain.algorithm.perturbation(*arguments), next(numbers)
        observe(step, w, torch.zeros_like(w[: plan.rows(step)]) if e is None else e)
        return e

    observed.perturbation = perturbation
    replace(plain, algorithm=observed).run(w, plan, ctx)
    return w, plan.length


def _gradient(simulation: Simulation, w: Tensor, images: Tensor, **changes: float | None) -> Tensor:
    """Return the gradient (1, parameters) of the loss in evaluation mode, with ``changes`` of the executor."""
    executor = replace(simulation.executor, model=simulation.weights.evaluated, **changes)
    gradient = simulation.full_gradient(w, [images], executor)
    gradient[:, simulation.weights.layout.slices().get(FRONT, slice(0))] = 0  # no weights of the model
    return gradient


def _direction(rows: Tensor) -> Tensor:
    return torch.nn.functional.normalize(rows, dim=1, eps=torch.finfo(rows.dtype).tiny)  # 0 for a zero row
