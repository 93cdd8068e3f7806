"""A federated quadratic in float64, run by the engine: small enough to be worked out by hand.

Client i has the loss 1/2 sum_j a_ij (w_j - x_j)^2, averaged over its samples x (whole numbers from 0 to 255, an image
of 1 x 1 x d pixels each); its curvature a_i is looked up by the samples' label, which is i.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from flatfed import models
from flatfed.algorithms._layout import FRONT
from flatfed.data.partition import Partition
from flatfed.engine.executors import Sequential, Stacked
from flatfed.engine.job import assembly
from flatfed.engine.simulation import Simulation
from flatfed.runs.run_config import RunConfig
from harness import description, needs


class Point(nn.Module):
    """A vector of weights; what it would predict is of no interest."""

    def __init__(self, size: int, classes: int):
        super().__init__()
        self.dropout, self.classes = [], classes
        self.point = nn.Parameter(torch.zeros(size, 1))

    def forward(self, images, masks=None):
        return self.point.sum() * images.flatten(1).sum(dim=1, keepdim=True) * torch.zeros(1, self.classes).to(images)


def quadratic_loss(executor, tensors, batch):
    images = executor.transform(batch.images, tensors[FRONT]) if FRONT in tensors else batch.images
    distance = tensors["point"].flatten() - images.flatten(1)
    return ((executor.curvature[batch.labels] * distance.square()).sum(dim=1) / 2 * batch.weights).sum()


class Sequential(Sequential):
    loss = quadratic_loss


class Stacked(Stacked):
    loss = quadratic_loss


def quadratic(
    samples: list[list[list[int]]],
    curvature: list[list[float]],
    start: list[float],
    name: str,
    params: dict | None = None,
    executor: str = "stacked",
    **changes,
) -> Simulation:
    """Return algorithm ``name`` on clients with ``samples`` (clients, samples, d) and ``curvature`` (clients, d).

    Full batches, two local epochs (two local steps), everybody active, rate 0.1, no decay, no clip, unless ``changes``
    of the run description say otherwise.
    """
    size, clients = len(start), len(samples)
    images = np.array([sample for own in samples for sample in own], dtype=np.uint8).reshape(-1, 1, 1, size)
    labels = np.repeat(np.arange(clients), [len(own) for own in samples])
    offsets = np.cumsum([0, *[len(own) for own in samples]])
    dealt = Partition(np.arange(len(images)), offsets, np.arange(1), np.zeros((clients, 1)), {}, "")
    plain = {
        "dataset": {"name": "quadratic", "classes": clients, "shape": [1, 1, size], "mean": [0.0], "std": [1 / 255]},
        "partition": {"scheme": "iid", "clients": clients},
        "sampling": {"scheme": "all"},
        "batch_size": max(len(own) for own in samples),
        "local_epochs": 2,
        "learning_rate": 0.1,
        "learning_rate_decay": 1.0,
        "weight_decay": 0.0,
        "clip_norm": None,
    }
    fitting = {"topology": {"graph": "full"}} if "topology" in needs(name) else {}
    spec = description(name, params, **{**plain, **fitting, **changes})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "build", lambda *_: Point(size, clients))
        patch.setattr(models, "initial_weights", lambda *_: torch.tensor(start, dtype=torch.float64))
        data = SimpleNamespace(images=images, labels=labels, train=len(labels), test=0)
        run = assembly.simulation(RunConfig(**spec), data, dealt, torch.device("cpu"), "sequential")
    run.executor = {"sequential": Sequential, "stacked": Stacked}[executor](run.model, run.layout)
    run.executor.transform = run.algorithm.transform
    run.executor.curvature = torch.tensor(curvature, dtype=torch.float64)
    run.local_update.executor = run.executor
    return run


def after(rounds: int, run: Simulation) -> np.ndarray:
    """Return the server's model (d,) after ``rounds`` more rounds."""
    for _ in range(rounds):
        run.advance()
    return run.layout.views(run.server["w"][0])["point"].flatten().numpy().copy()
