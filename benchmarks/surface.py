"""Seconds of a loss surface of 51 x 51 points, compared with a plain loop over the points; JSON.

    PYTHONPATH=src .venv/bin/python benchmarks/surface.py

The small CNN evaluates 1,290 random images at 300 points of the grid; ``seconds`` are for all points. FlatFed and a
plain loop take turns by blocks of points, and the median block counts.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import vector_to_parameters

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from flatfed import models
from flatfed.analysis.landscape import directions
from flatfed.analysis.landscape.loss_surface import LossEvaluator
from flatfed.analysis.trained_model import TrainedModel
from flatfed.data.partition import Partition
from flatfed.engine.layout import Layout
from flatfed.engine.resident import Resident
from flatfed.runs.analysed_model import Digests
from flatfed.runs.record import RunRecord

MODEL, SHAPE, IMAGES, BATCH = "cnn_tiny", (1, 8, 8), 1290, 500
GRID, POINTS, BLOCK = 51, 300, 16


def problem() -> TrainedModel:
    """Return a finished run with initial weights and random images."""
    rng = np.random.default_rng(0)
    model = models.build(MODEL, SHAPE, 10, {}).eval().requires_grad_(False)
    row = models.initial_weights(model, torch.Generator().manual_seed(0))
    statistics = [torch.full((SHAPE[0],), value) for value in (0.5, 0.25)]
    pixels = torch.from_numpy(rng.integers(0, 256, (IMAGES, *SHAPE), dtype=np.uint8))
    data = Resident(pixels, torch.from_numpy(rng.integers(0, 10, IMAGES)), *statistics, torch.float32, "none")
    positions = np.arange(IMAGES)
    partition = Partition(positions, np.array([0, IMAGES]), positions[:0], np.zeros((1, 10)), {}, "")
    description = {"evaluation": {"batch_size": BATCH}}
    record = RunRecord(description=description, rounds_done=0, diverged_at=None, dataset_digest="", partition_digest="")
    return TrainedModel(Path(MODEL), record, model, Layout.of(model), row, data, partition, Digests.of_run(record, ""))


@torch.no_grad()
def plain(trained: TrainedModel, rows: torch.Tensor) -> list[float]:
    """Return the loss of every row by the plain loop."""
    losses, data = [], trained.data
    for row in rows:
        vector_to_parameters(row, trained.model.parameters())
        total = 0.0
        for start in range(0, len(data.labels), BATCH):
            images = data.images[start : start + BATCH].float() / 255
            images = (images - data.mean[:, None, None]) / data.std[:, None, None]
            output = trained.model(images)
            total += cross_entropy(output, data.labels[start : start + BATCH], reduction="sum").item()
        losses.append(total / len(data.labels))
    return losses


def measure() -> dict:
    trained = problem()
    direction_x, direction_y = directions.draw(trained.layout, trained.row, 0)
    axis = torch.linspace(-1, 1, GRID)
    chosen = np.linspace(0, GRID**2 - 1, POINTS).astype(int)
    x, y = (axis[torch.from_numpy(part)][:, None] for part in np.unravel_index(chosen, (GRID, GRID)))
    points = LossEvaluator(trained, trained.draw_images("train", None, 0))
    jobs = {
        "plain loop": lambda rows: plain(trained, rows),
        "points": lambda rows: [points(row)[0] for row in rows],
    }
    seconds, difference = {name: [] for name in jobs}, 0.0
    for job in jobs.values():
        job(trained.row.expand(BLOCK, -1))  # warm-up
    for start in range(0, POINTS, BLOCK):
        block = slice(start, start + BLOCK)
        rows = trained.row + x[block] * direction_x + y[block] * direction_y
        losses = {}
        for name, job in jobs.items():
            began = time.monotonic()
            losses[name] = np.asarray(job(rows))
            seconds[name].append((time.monotonic() - began) / len(rows))
        difference = max(difference, float(np.abs(losses["points"] / losses["plain loop"] - 1).max()))
    if difference > 1e-5:
        raise SystemExit(f"the losses differ by {difference:.1e} of their size")
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "threads": torch.get_num_threads(),
        "seconds": {name: round(value * GRID**2, 2) for name, value in medians.items()},
        "times the plain loop's speed": round(medians["plain loop"] / medians["points"], 2),
        "largest relative difference": difference,
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(measure(), indent=1))
