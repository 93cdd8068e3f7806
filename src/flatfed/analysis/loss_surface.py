"""The loss surface around the model of a finished run: the loss at w + x d_1 + y d_2 on a grid of (x, y).

Filter normalisation makes the random directions comparable between models (Li, Xu, Taylor, Studer and Goldstein,
Visualizing the Loss Landscape of Neural Nets, NeurIPS 2018, section 4): each filter of a Gaussian direction is scaled
to the norm of the model's own filter. A filter is a row of a dense layer or a kernel (inputs, height, width) of a
convolution. Scaling makes nearly orthogonal vectors less orthogonal: FlatFed first makes them orthogonal within every
filter. One-dimensional tensors (biases, normalisation layers) have no filters: both directions are zero.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from flatfed.algorithms._layout import Layout
from flatfed.analysis import trained_model
from flatfed.analysis.trained_model import AnalysisInputs, TrainedModel
from flatfed.data.streams import stream
from flatfed.engine.evaluate import Score
from flatfed.engine.executors import executor_class
from flatfed.engine.job import memory
from flatfed.engine.job.machine import pick_device
from flatfed.engine.speed.recording import CudaGraphs, RecordedScore
from flatfed.errors import FlatFedError
from flatfed.files import digest_arrays
from flatfed.runs import landscape_file
from flatfed.runs.landscape_file import Landscape, LandscapeSetUp, SurfaceModel

REPORT_INTERVAL = 15.0  # seconds
REMEDIES = "What helps: nothing else on the device, one with more memory, or `device: cpu` in place of a GPU"

CPU_BATCH = 256  # most images of a forward pass on a CPU: larger batches lose more in caches than they save in calls


@dataclass(frozen=True)
class SurfaceSettings:
    """``grid`` points per direction, from -``range`` to ``range`` times the filter norms, on ``images`` of a ``set``.

    ``images`` None: all; ``seed`` draws images and directions.
    """

    grid: int
    range: float
    set: str
    images: int | None
    seed: int


def draw_directions(layout: Layout, row: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Return two directions (parameters,) for the weights ``row`` (parameters,), in its dtype and on its device.

    Models of the same shapes share the draw of a ``seed``. A filter of zeros gives zeros. In a filter of one weight,
    the second direction is zero.
    """
    generators = [stream(seed, "directions", number) for number in range(2)]
    directions = [np.zeros(layout.size) for _ in generators]
    weights = row.detach().cpu().double().numpy()
    for shape, part in zip(layout.shapes, layout.slices().values(), strict=True):
        drawn = [generator.standard_normal(part.stop - part.start) for generator in generators]
        if len(shape) < 2:
            continue
        u, v = (values.reshape(shape[0], -1) for values in drawn)
        for _ in range(2):  # the second pass removes the rounding of the first
            v = v - u * (_dot(u, v) / _dot(u, u))
        if u.shape[1] == 1:
            v = np.zeros_like(u)
        filters = weights[part].reshape(shape[0], -1)
        norms = np.sqrt(_dot(filters, filters))
        for direction, values in zip(directions, (u, v), strict=True):
            length = np.sqrt(_dot(values, values))
            scale = np.divide(norms, length, out=np.zeros_like(norms), where=length > 0)
            direction[part] = (values * scale).reshape(-1)
    u, v = (torch.from_numpy(direction).to(row.device, row.dtype) for direction in directions)
    return u, v


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(axis=1, keepdims=True)


def evaluator(trained: TrainedModel, index: Tensor) -> Callable[[Tensor], np.ndarray]:
    """Return a function of weights (parameters,), which evaluates the images ``index`` (n,) as the run does.

    It returns (2,), float64: mean cross-entropy in nats and accuracy.
    """
    size, device = trained.record.config.evaluation.batch_size, index.device
    size = min(size, CPU_BATCH) if device.type == "cpu" else size
    score = Score(trained.model, trained.layout, trained.data, size, pause=lambda: None)
    records = executor_class(trained.record.config.executor.cuda).records_steps  # of a model that can be recorded
    if records and trained.data.images.device.type == "cuda":
        score = RecordedScore(score, CudaGraphs(device), [index])

    def evaluate(row: Tensor) -> np.ndarray:
        loss, hits = score(row, index)
        return (torch.stack([loss, hits.sum()]) / len(index)).cpu().numpy()

    return evaluate


def surface(run: Path, inputs: AnalysisInputs, out: Path, settings: SurfaceSettings) -> None:
    """Write the surface of ``run`` to ``out``; its losses are NaN if the run diverged.

    :raises DataError: see :func:`flatfed.analysis.trained_model.load`.
    :raises FlatFedError: the grid is even or below 3, or the range is not positive and finite.
    """
    grid = settings.grid
    if grid < 3 or grid % 2 == 0:
        raise FlatFedError(f"grid: {grid} points: expected an odd number from 3, so that the model is one of them")
    if not 0 < settings.range < math.inf:
        raise FlatFedError(f"range: {settings.range}: expected a finite number, more than 0")
    with memory.explained(pick_device(inputs.device), f"surface of {run}", REMEDIES):
        trained = trained_model.load(run, inputs)
        row, name = trained.row, trained.record.name
        index = trained.draw_images(settings.set, settings.images, settings.seed)
        about = LandscapeSetUp(
            version=landscape_file.VERSION,
            **asdict(replace(settings, images=len(index))),
            images_of=len(trained.draw_images(settings.set, None, settings.seed)),
            models=[SurfaceModel(name=name, **trained.provenance)],
            images_sha256=digest_arrays(images=np.sort(index.cpu().numpy())),
            device=row.device.type,
            precision=str(row.dtype).removeprefix("torch."),
        )
        axis = np.arange(-(grid // 2), grid // 2 + 1) * (settings.range / (grid // 2))
        along_x, along_y = draw_directions(trained.layout, row, settings.seed)
        steps = torch.from_numpy(axis).to(row)

        values, reported = np.full((2, 1, grid, grid), np.nan), time.monotonic()
        if trained.record.diverged_at is not None:
            print(f"{name}: surface: diverged, so without losses", file=sys.stderr)
        else:
            evaluate = evaluator(trained, index)
            for x, y in np.ndindex(grid, grid):
                values[:, 0, x, y] = evaluate(row + steps[x] * along_x + steps[y] * along_y)
                if time.monotonic() - reported > REPORT_INTERVAL:
                    print(f"{name}: surface: {x * grid + y + 1} of {grid * grid} points", file=sys.stderr)
                    reported = time.monotonic()
        landscape_file.write(out, Landscape(about, axis, axis, *values))
