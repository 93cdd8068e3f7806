"""Seconds of a loss surface of 51 x 51 points, against a plain loop over the points, as JSON on standard output.

    PYTHONPATH=src .venv/bin/python benchmarks/surface.py [--model cnn_tiny] [--images 1290] [--points 300]

The plain loop is what one would write: put the weights of a point into the module, go through the images in batches,
normalise them, add up the losses. Beside it ``flatfed.analysis.landscape.loss_surface``. They take turns, block of
points by block, and the median block counts, so that background load affects both; losses must agree. Only ``--points``
of the 2,601 points are evaluated, spread over the grid; ``seconds`` is for all of them. Images are random.
"""

from __future__ import annotations

import argparse
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

from flatfed import models  # noqa: E402
from flatfed.analysis.landscape import directions  # noqa: E402
from flatfed.analysis.landscape.loss_surface import LossEvaluator  # noqa: E402
from flatfed.analysis.trained_model import TrainedModel  # noqa: E402
from flatfed.data.partition import Partition  # noqa: E402
from flatfed.engine.layout import Layout  # noqa: E402
from flatfed.engine.memory.available import reuse_memory  # noqa: E402
from flatfed.engine.resident import Resident  # noqa: E402
from flatfed.runs.analysed_model import Digests  # noqa: E402
from flatfed.runs.record import RunRecord  # noqa: E402

SHAPES = {"cnn_tiny": (1, 8, 8), "cnn": (3, 32, 32), "resnet18_gn": (3, 32, 32)}
GRID, BLOCK = 51, 16


def problem(name: str, images: int, batch: int, device: torch.device) -> TrainedModel:
    """Return a model with initial weights and random images, as a finished run would be."""
    shape, rng = SHAPES[name], np.random.default_rng(0)
    model = models.build(name, shape, 10, {}).to(device).eval().requires_grad_(False)
    row = models.initial_weights(model, torch.Generator().manual_seed(0)).to(device)
    statistics = [torch.full((shape[0],), value, device=device) for value in (0.5, 0.25)]
    pixels = torch.from_numpy(rng.integers(0, 256, (images, *shape), dtype=np.uint8)).to(device)
    labels = torch.from_numpy(rng.integers(0, 10, images)).to(device)
    data = Resident(pixels, labels, *statistics, torch.float32, "none")
    everything = np.arange(images)
    dealt = Partition(everything, np.array([0, images]), everything[:0], np.zeros((1, 10)), {}, "")
    description = {"evaluation": {"batch_size": batch}}
    record = RunRecord(description=description, rounds_done=0, diverged_at=None, dataset_digest="", partition_digest="")
    digests = Digests.of_run(record, "")
    return TrainedModel(Path(name), record, model, Layout.of(model), row, data, dealt, digests)


@torch.no_grad()
def plain(trained: TrainedModel, rows: torch.Tensor, batch: int) -> list[float]:
    """Return the loss of every row, by the plain loop."""
    losses, data = [], trained.data
    for row in rows:
        vector_to_parameters(row, trained.model.parameters())
        total = 0.0
        for start in range(0, len(data.labels), batch):
            images = data.images[start : start + batch].float() / 255
            images = (images - data.mean[:, None, None]) / data.std[:, None, None]
            output = trained.model(images)
            total += cross_entropy(output, data.labels[start : start + batch], reduction="sum").item()
        losses.append(total / len(data.labels))
    return losses


def measure(options: argparse.Namespace) -> dict:
    """Return the seconds of both for all points of the grid."""
    device = torch.device(options.device)
    trained = problem(options.model, options.images, options.batch, device)
    index = trained.draw_images("train", None, 0)
    first, second = directions.draw(trained.layout, trained.row, 0)
    along = torch.linspace(-1, 1, GRID, device=device)
    chosen = np.linspace(0, GRID**2 - 1, options.points).astype(int)
    x, y = (along[torch.from_numpy(part).to(device)][:, None] for part in np.unravel_index(chosen, (GRID, GRID)))
    points = LossEvaluator(trained, index)
    jobs = {
        "plain loop": lambda rows: plain(trained, rows, options.batch),
        "points": lambda rows: [points(row)[0] for row in rows],
    }
    seconds, worst = {name: [] for name in jobs}, 0.0
    for job in jobs.values():
        job(trained.row.expand(BLOCK, -1))  # warm up
    for start in range(0, options.points, BLOCK):
        block = slice(start, start + BLOCK)
        rows = trained.row + x[block] * first + y[block] * second
        found = {}
        for name, job in jobs.items():
            began = time.monotonic()
            found[name] = np.asarray(job(rows))  # on the host: the device is done
            seconds[name].append((time.monotonic() - began) / len(rows))
        worst = max(worst, float(np.abs(found["points"] / found["plain loop"] - 1).max()))
    if worst > 1e-5:
        raise SystemExit(f"the losses differ by {worst:.1e} of their size")
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        **vars(options),
        "threads": torch.get_num_threads(),
        "seconds": {name: round(value * GRID**2, 2) for name, value in medians.items()},
        "times the plain loop's speed": round(medians["plain loop"] / medians["points"], 2),
        "largest relative difference": worst,
    }


def main() -> None:
    """Parse the arguments, measure, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="cnn_tiny", choices=SHAPES)
    parser.add_argument("--images", type=int, default=1290)
    parser.add_argument("--batch", type=int, default=500, help="images of a batch of evaluation")
    parser.add_argument("--points", type=int, default=300, help="points measured, of 2,601")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--reuse-memory", action="store_true", help="as `flatfed surface` does, for both")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.reuse_memory:
        reuse_memory()
    print(json.dumps(measure(options), indent=1))


if __name__ == "__main__":
    main()
