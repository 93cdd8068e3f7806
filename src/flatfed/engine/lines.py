"""The lines of metrics.csv."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from flatfed.engine.simulation import ClientUpdates, Simulation


def columns(unseen: str) -> list[str]:
    """Return the columns of every run; ``unseen`` is "test", or "validation" for a tuning run."""
    names = f"round learning_rate train_loss {unseen}_loss {unseen}_accuracy clients consistency"
    return [*names.split(), "download_bytes", "upload_bytes", "seconds"]


def before_evaluation(run: Simulation, updates: ClientUpdates) -> dict[str, float]:
    """Return the columns that the round's ``updates`` determine.

    ``consistency`` is (1/n) sum_i ||w_i - w^{t+1}||^2 over the local models.
    """
    gaps = [(row.to(run.device) - run.server["w"][0]).square().sum() for row in updates.models]
    line = {
        "round": run.round + 1,
        "learning_rate": run.learning_rate(),
        "train_loss": float(updates.losses) / updates.steps,
        "clients": updates.participants,
        "consistency": float(torch.stack(gaps).mean()),
    }
    for name in dict.fromkeys(name for accuracy in updates.accuracies for name in accuracy):
        line[name] = float(np.mean([accuracy[name] for accuracy in updates.accuracies if name in accuracy]))
    return line


def evaluated(run: Simulation, line: dict[str, float]) -> dict[str, float]:
    """Return ``line`` with losses and accuracies of the model that tables show."""
    with run.clock.counted_as("evaluation"):
        shown = next(iter(run.algorithm.evaluated(run.server).values()))[0]
        scores = run.evaluate(shown)
    traffic = {f"{direction}_bytes": run.cost.counts[direction] for direction in ("download", "upload")}
    values = {**scores, **line, **traffic, "seconds": round(run.clock.seconds["training"], 3)}
    return {name: values[name] for name in columns(run.evaluate.unseen)} | values
