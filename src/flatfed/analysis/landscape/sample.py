"""The loss surface around the model of a finished run.

A surface is the loss at w + x d_1 + y d_2 on a grid of (x, y), for two directions d_1, d_2 (see
:mod:`flatfed.analysis.landscape.directions`). Surfaces of one seed are along one draw of directions, scaled to the
filters of the model each is of, so that they compare as those of Li et al. (2018) do.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from flatfed.analysis import trained_model
from flatfed.analysis.landscape import directions
from flatfed.analysis.landscape.landscape_file import KIND, AboutLandscape, Landscape, Model, Unfinished, write
from flatfed.analysis.landscape.points import Points
from flatfed.analysis.trained_model import Inputs
from flatfed.engine.job.machine import pick_device
from flatfed.engine.job.progress import duration
from flatfed.engine.memory import shortage
from flatfed.errors import FlatFedError
from flatfed.files import digest_arrays

SAVED = 1.0  # seconds between two writes of unfinished points; one that takes longer is written at once
HELPS = "What helps: nothing else on the device, one with more memory, or `device: cpu` in place of a GPU"
REPORTED = 15.0  # seconds between two lines on standard error


@dataclass(frozen=True)
class SurfaceSettings:
    """What is evaluated: ``grid`` points along a direction, out to ``range`` times the filter norms on both sides.

    ``set`` and ``images`` choose the data (None: all), ``seed`` draws images and directions.
    """

    grid: int
    range: float
    set: str
    images: int | None
    seed: int


def surface(run: Path, inputs: Inputs, out: Path, settings: SurfaceSettings) -> None:
    """Write the surface of ``run`` to ``out``; without losses (NaN) where the run diverged.

    A call that was stopped goes on when it is called again. Raises DataError for a run that does not fit its data,
    FlatFedError for a grid without points on both sides of the model or a range that is no length.
    """
    grid = settings.grid
    if grid < 3 or grid % 2 == 0:
        raise FlatFedError(f"grid: {grid} points: wanted is an odd number from 3, so that the model is one of them")
    if not 0 < settings.range < math.inf:
        raise FlatFedError(f"range: {settings.range}: wanted is a finite number, more than 0")
    with shortage.explained(pick_device(inputs.device), f"surface of {run}", HELPS):
        trained = trained_model.load(run, inputs)
        row, name = trained.row, trained.record.name
        index = trained.choose(settings.set, settings.images, settings.seed)
        about = AboutLandscape(
            **{**asdict(settings), "images": len(index)},
            models=[Model(name=name, **trained.facts)],
            images_sha256=digest_arrays(images=np.sort(index.cpu().numpy())),
            device=row.device.type,
            precision=str(row.dtype).removeprefix("torch."),
        )
        along = np.arange(-(grid // 2), grid // 2 + 1) * (settings.range / (grid // 2))
        first, second = directions.draw(trained.layout, row, settings.seed)
        steps = torch.from_numpy(along).to(row)

        def weights(point: int) -> Tensor:
            x, y = divmod(point, grid)
            return row + steps[x] * first + steps[y] * second

        unfinished = Unfinished(out, {"kind": KIND, **asdict(about)}, grid * grid)
        label = f"{name}: surface"
        if trained.record.diverged_at is None:
            _evaluate(Points(trained, index), weights, unfinished, label)
        else:
            print(f"{label}: diverged, so without losses: {name}", file=sys.stderr)
            unfinished.values[:] = np.nan
        loss, accuracy = unfinished.values.reshape(2, 1, grid, grid)
        write(out, Landscape(about, along, along, loss, accuracy))
        unfinished.discard()


def _evaluate(points: Points, weights: Callable[[int], Tensor], unfinished: Unfinished, label: str) -> None:
    """Evaluate the points that ``unfinished`` lacks."""
    total, before = len(unfinished.done), int(unfinished.done.sum())
    began = saved = reported = time.monotonic()
    if before:
        print(f"{label}: goes on, {before} of {total} points are done", file=sys.stderr)
    for done, point in enumerate(np.flatnonzero(~unfinished.done).tolist(), before + 1):
        unfinished.values[:, point] = points(weights(point))
        unfinished.done[point] = True
        now = time.monotonic()
        if now - saved > SAVED:
            unfinished.save()
            saved = now
        if now - reported > REPORTED:
            left = duration((now - began) / (done - before) * (total - done))
            print(f"{label}: {done}/{total} points, {left} left", file=sys.stderr)
            reported = now
