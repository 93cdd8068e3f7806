"""The loss surface around the model of a finished run, and the line between two models.

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
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from flatfed.analysis import trained_model
from flatfed.analysis.landscape import directions
from flatfed.analysis.landscape.landscape_file import AboutLandscape, Landscape, Model, Unfinished, write
from flatfed.analysis.landscape.points import HELPS, Points
from flatfed.analysis.trained_model import Inputs, Trained
from flatfed.engine.job.machine import pick_device
from flatfed.engine.job.progress import duration
from flatfed.engine.memory import shortage
from flatfed.errors import DataError, FlatFedError
from flatfed.files import digest_arrays
from flatfed.runs import record as records
from flatfed.runs.analysed import Digests
from flatfed.runs.record import RunRecord

SAVED = 1.0  # seconds between two writes of unfinished points; one that takes longer is written at once
REPORTED = 15.0  # seconds between two lines on standard error


@dataclass(frozen=True)
class SectionSettings:
    """What is evaluated: ``grid`` points along a direction, out to ``range`` times the filter norms on both sides.

    ``set`` and ``images`` choose the data (None: all), ``seed`` draws images and directions.
    """

    grid: int
    range: float
    set: str
    images: int | None
    seed: int


@dataclass(frozen=True)
class Section:
    """Points of a landscape of ``models``: in a plane around one, or on the line between two.

    ``weights`` returns those of a point, by number, as a row (parameters,). ``shape`` is that of the losses.
    """

    kind: str
    models: list[Model]
    x: np.ndarray
    y: np.ndarray
    shape: tuple[int, ...]
    weights: Callable[[int], Tensor]


def surface(run: Path, inputs: Inputs, out: Path, settings: SectionSettings) -> None:
    """Write the surface of ``run`` to ``out``; without losses (NaN) where the run diverged.

    A call that was stopped goes on when it is called again. Raises DataError for a run that does not fit its data,
    FlatFedError for a grid without points on both sides of the model or a range that is no length.
    """
    if settings.grid < 3 or settings.grid % 2 == 0:
        raise FlatFedError(
            f"grid: {settings.grid} points: wanted is an odd number from 3, so that the model is one of them"
        )
    if not 0 < settings.range < math.inf:
        raise FlatFedError(f"range: {settings.range}: wanted is a finite number, more than 0")
    _make(run, inputs, _plane, settings, out, f"surface of {run}")


def _plane(trained: Trained, settings: SectionSettings) -> Section:
    """Return the plane around a model."""
    grid, row = settings.grid, trained.row
    along = np.arange(-(grid // 2), grid // 2 + 1) * (settings.range / (grid // 2))
    first, second = directions.draw(trained.layout, row, settings.seed)

    steps = torch.from_numpy(along).to(row)

    def weights(point: int) -> Tensor:
        x, y = divmod(point, grid)
        return row + steps[x] * first + steps[y] * second

    models = [_model(trained.record, trained.digests)]
    return Section("surface", models, along, along, (1, grid, grid), weights)


def line(start: Path, end: Path, inputs: Inputs, out: Path, settings: SectionSettings) -> None:
    """Write the losses on the line through the models of two runs to ``out``: (1 - x) w_start + x w_end.

    ``grid`` points from the one to the other, both included; beyond each, as far as ``range`` lengths of that way, at
    the same distances. No losses (NaN) where either run diverged. Data and partition are those of ``start``. Else as
    :func:`surface`; DataError also for runs of different models or data.
    """
    if settings.grid < 2:
        raise FlatFedError(f"grid: {settings.grid} points: a line has at least its two ends")
    if not 0 <= settings.range < math.inf:
        raise FlatFedError(f"range: {settings.range}: wanted is a finite number, 0 or more")
    _make(start, inputs, partial(_straight, end), settings, out, f"line from {start}")


def _straight(end: Path, start: Trained, settings: SectionSettings) -> Section:
    """Return the line from a model to that of the run ``end``; DataError for one of another model or data."""
    record = records.read_finished(end)
    if record.dataset_digest != start.digests.dataset:
        raise DataError(f"{end}: was trained on other data than {start.folder}: their losses do not compare")
    for key in ("model", "dataset"):
        ours, theirs = start.description[key], record.description[key]
        if ours != theirs:
            raise DataError(f"{end}: {key} is {theirs}, but {ours} in {start.folder}: no line is between them")
    row, digests = trained_model.read_weights(end, record, start.layout)
    row = row.to(start.row)
    beyond = int(settings.range * (settings.grid - 1) + 1e-9)
    along = np.arange(-beyond, settings.grid + beyond) / (settings.grid - 1)

    shares = torch.from_numpy(along).to(row)

    def weights(point: int) -> Tensor:
        return torch.lerp(start.row, row, shares[point])

    models = [_model(start.record, start.digests), _model(record, digests)]
    return Section("line", models, along, np.zeros(0), along.shape, weights)


def _model(record: RunRecord, digests: Digests) -> Model:
    """Return what a file says of one of its models."""
    return Model(
        name=record.name,
        algorithm=record.description["algorithm"],
        scale=record.description["scale"],
        digests=digests,
        diverged_at=record.diverged_at,
    )


def _make(
    run: Path, inputs: Inputs, cut: Callable[..., Section], settings: SectionSettings, out: Path, what: str
) -> None:
    """Evaluate every point of the section that ``cut`` returns of the trained ``run`` and settings, and write the file.

    Where a model diverged no point is evaluated: all are NaN. ``what``: words for the section where memory is short.
    """
    with shortage.explained(pick_device(inputs.device), what, HELPS):
        trained = trained_model.load(run, inputs)
        section = cut(trained, settings)
        index = trained.choose(settings.set, settings.images, settings.seed)
        about = AboutLandscape(
            **{**asdict(settings), "images": len(index)},
            models=section.models,
            images_sha256=digest_arrays(images=np.sort(index.cpu().numpy())),
            device=trained.row.device.type,
            precision=str(trained.row.dtype).removeprefix("torch."),
        )
        unfinished = Unfinished(out, {"kind": section.kind, **asdict(about)}, math.prod(section.shape))
        label = f"{trained.name}: {section.kind}"
        if diverged := [model.name for model in section.models if model.diverged_at is not None]:
            print(f"{label}: diverged, so without losses: {', '.join(diverged)}", file=sys.stderr)
            unfinished.values[:] = np.nan
        else:
            _evaluate(Points(trained, index), section.weights, unfinished, label)
        loss, accuracy = unfinished.values.reshape(2, *section.shape)
        write(out, Landscape(section.kind, about, section.x, section.y, loss, accuracy))
        unfinished.discard()


def _evaluate(points: Points, weights: Callable[[int], Tensor], unfinished: Unfinished, label: str) -> None:
    """Evaluate the points that ``unfinished`` lacks."""
    total, before = len(unfinished.done), int(unfinished.done.sum())
    began = saved = reported = time.monotonic()
    if before:
        print(f"{label}: goes on, {before} of {total} points are done", file=sys.stderr)
    for done, point in enumerate(np.flatnonzero(~unfinished.done).tolist(), before + 1):
        unfinished.values[:, point] = points.at(partial(weights, point), label)
        unfinished.done[point] = True
        now = time.monotonic()
        if now - saved > SAVED:
            unfinished.save()
            saved = now
        if now - reported > REPORTED:
            left = duration((now - began) / (done - before) * (total - done))
            print(f"{label}: {done}/{total} points, {left} left", file=sys.stderr)
            reported = now
