"""Runs of the small problem, for identities that hold to 1e-12 in float64.

The clip is active, weights decay, half of the clients take part, batches are ragged and clients of unequal size, unless
a test needs otherwise.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from flatfed.engine.simulation import Simulation
from harness import SIZES, description, simulation

TOLERANCE = 1e-12
EVERYBODY = {"sampling": {"scheme": "all"}}
HALF = {"sampling": {"scheme": "fixed", "fraction": 0.5}}
RING = {"topology": {"graph": "ring"}, **EVERYBODY}
FULL = {"topology": {"graph": "full"}, **EVERYBODY}
ONE_STEP = {"local_epochs": 1, "batch_size": max(SIZES)}
PLAIN = {"weight_decay": 0.0, "clip_norm": None}
EXECUTORS = pytest.mark.parametrize("executor", ["sequential", "stacked"])


def gap(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max())


def run(
    folder: Path, name: str, params: dict | None = None, rounds: int = 0, executor: str = "stacked", **changes
) -> Simulation:
    """Return the run of algorithm ``name`` on the problem in ``folder`` after ``rounds`` rounds."""
    found = simulation(folder, description(name, params, **changes), executor)
    for _ in range(rounds):
        found.advance()
    return found


def model(*arguments, rounds: int = 4, **changes) -> torch.Tensor:
    """Return the model (1, parameters) of :func:`run`."""
    return run(*arguments, rounds=rounds, **changes).server["w"]


def step(*arguments, **changes) -> torch.Tensor:
    """Return w^1 - w^0 of :func:`run`."""
    found = run(*arguments, **changes)
    start = found.server["w"].clone()
    found.advance()
    return found.server["w"] - start
