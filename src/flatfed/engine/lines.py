"""A line of metrics.csv: what a round's training and its evaluation come to, and in which order it has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from flatfed.engine.simulation import Simulation

#: Columns that every run has; ``unseen`` is "test", or "validation" where images are held out to choose by.
COLUMNS = (
    *("round", "learning_rate", "train_loss", "{unseen}_loss", "{unseen}_accuracy", "clients", "consistency"),
    *("download_bytes", "upload_bytes", "seconds"),
)


@dataclass
class RoundTraining:
    """What the training of a round leaves to be measured.

    ``losses`` (0-d) the sum of each local step's first loss; ``steps`` how many these are; ``models`` the local models,
    each (parameters,); ``accuracies`` of each node's own model, by column, where these are evaluated.
    """

    losses: Tensor
    models: Iterable[Tensor] = ()
    steps: int = 0
    accuracies: list[dict[str, float]] = field(default_factory=list)


def columns(unseen: str) -> list[str]:
    """Return the names of the columns that every run has."""
    return [name.format(unseen=unseen) for name in COLUMNS]


def before_evaluation(run: Simulation, clients: int, trained: RoundTraining) -> dict[str, float]:
    """Return what is known of the line of ``run``'s present round when its ``clients`` have ``trained``.

    ``consistency`` is (1/n) sum_i ||w_i - w^{t+1}||^2 over the local models.
    """
    gaps = [(row.to(run.device) - run.server["w"][0]).square().sum() for row in trained.models]
    line = {
        "round": run.round + 1,
        "learning_rate": run.learning_rate(),
        "train_loss": float(trained.losses) / trained.steps,
        "clients": clients,
        "consistency": float(torch.stack(gaps).mean()),
    }
    for name in dict.fromkeys(name for each in trained.accuracies for name in each):
        line[name] = float(np.mean([each[name] for each in trained.accuracies if name in each]))
    return line


def evaluated(run: Simulation, line: dict[str, float]) -> dict[str, Any]:
    """Return ``line`` with losses and accuracies of the model that tables show, in the order of metrics.csv."""
    with run.clock.counted_as("evaluation"):
        shown = next(iter(run.algorithm.evaluated(run.server).values()))[0]
        scores = run.evaluate(shown)
    sent = {f"{way}_bytes": run.cost.counts[way] for way in ("download", "upload")}
    values = {**scores, **line, **sent, "seconds": round(run.clock.seconds["training"], 3)}
    first = {name: values[name] for name in columns(run.evaluate.unseen)}
    return first | values
