"""The accuracy of a finished run's model on test images of each client."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import torch

from flatfed.analysis import trained_model
from flatfed.analysis.trained_model import AnalysisInputs
from flatfed.data.partition import draw_client_test
from flatfed.engine.evaluate import Score
from flatfed.engine.job import memory
from flatfed.runs import client_accuracies

BATCH = 1000  # images of a batch
IMAGES = 1000  # test images of a client, or all if there are fewer


def client_accuracy(run: Path, inputs: AnalysisInputs, out: Path) -> None:
    """Write the accuracy of the run in the folder ``run`` on ``IMAGES`` test images of each client.

    A line for each client, then for the four summaries. The accuracies of a run that diverged are NaN.

    :raises DataError: see :func:`flatfed.data.partition.draw_client_test`.
    """
    trained = trained_model.load(run, inputs)
    record, partition, device = trained.record, trained.partition, trained.row.device
    labels, test = trained.data.labels.cpu().numpy(), partition.test
    parts = np.split(partition.indices, partition.offsets[1:-1])
    count = min(IMAGES, len(test))
    drawn = draw_client_test(labels, parts, test, count, record.config.seed)
    score = Score(trained.model, trained.layout, trained.data, BATCH, lambda: None)
    right = np.zeros(len(labels))
    with memory.explained(device, f"clients of {run}"):
        right[test] = score(trained.row, torch.from_numpy(test).to(device))[1].cpu().numpy()
    accuracies = np.array([right[images].mean() for images in drawn])
    if record.diverged_at is not None:
        accuracies[:] = math.nan
    summary = summarise(accuracies)
    lines = [(i, len(part), count, accuracies[i]) for i, part in enumerate(parts)]
    lines += [(name, len(partition.indices), count, value) for name, value in summary.items()]
    client_accuracies.write(out, lines, trained.digests.model)
    text = ", ".join(f"{name.replace('_', ' ')} {100 * value:.2f} %" for name, value in summary.items())
    if record.diverged_at is not None:
        text = f"diverged in round {record.diverged_at}: there are no accuracies"
    print(f"{record.name}: {len(parts)} clients: {text}", file=sys.stderr)


def summarise(accuracies: np.ndarray) -> dict[str, float]:
    """Return the summaries of ``accuracies`` (clients,); ``worst_tenth``: mean of the lowest tenth, rounded up."""
    worst = np.sort(accuracies)[: math.ceil(len(accuracies) / 10)]
    summary = {"mean": accuracies.mean(), "worst_tenth": worst.mean()}
    return summary | {"median": np.median(accuracies), "deviation": accuracies.std()}
