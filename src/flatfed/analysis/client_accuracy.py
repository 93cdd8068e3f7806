"""The accuracy of a finished run's model on test images of each client."""

from __future__ import annotations

import csv
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
from flatfed.errors import FlatFedError
from flatfed.files import write_whole

BATCH = 1000  # images of a batch


def client_accuracy(run: Path, inputs: AnalysisInputs, out: Path, count: int) -> None:
    """Write the accuracy of the run in the folder ``run`` on ``count`` test images (or all, if fewer) of each client.

    A line for each client, then for the four summaries.

    :raises FlatFedError: the run diverged; DataError: see :func:`flatfed.data.partition.draw_client_test`.
    """
    trained = trained_model.load(run, inputs)
    record, partition, device = trained.record, trained.partition, trained.row.device
    if record.diverged_at is not None:
        raise FlatFedError(f"{run}: diverged in round {record.diverged_at}: its model has no accuracy")
    labels, test = trained.data.labels.cpu().numpy(), partition.test
    parts = np.split(partition.indices, partition.offsets[1:-1])
    count = min(count, len(test))
    drawn = draw_client_test(labels, parts, test, count, record.config.seed)
    score = Score(trained.model, trained.layout, trained.data, BATCH, lambda: None)
    right = np.zeros(len(labels))
    with memory.explained(device, f"clients of {run}"):
        right[test] = score(trained.row, torch.from_numpy(test).to(device))[1].cpu().numpy()
    accuracies = np.array([right[images].mean() for images in drawn])
    worst = np.sort(accuracies)[: math.ceil(len(accuracies) / 10)]
    summary = {"mean": accuracies.mean(), "worst_tenth": worst.mean()}
    summary |= {"median": np.median(accuracies), "deviation": accuracies.std()}
    with write_whole(out, "w") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["client", "train_images", "test_images", "accuracy"])
        writer.writerows((i, len(part), count, accuracies[i]) for i, part in enumerate(parts))
        writer.writerows((name, len(partition.indices), count, value) for name, value in summary.items())
    texts = (f"{name.replace('_', ' ')} {100 * value:.2f} %" for name, value in summary.items())
    print(f"{record.name}: {len(parts)} clients: {', '.join(texts)}", file=sys.stderr)
