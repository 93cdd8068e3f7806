"""Loss surfaces around the models of finished runs, and the line between two of them.

A surface is the loss at w + x d_1 + y d_2 on a grid of (x, y), for two directions d_1, d_2 (see
:mod:`flatfed.analysis.landscape.directions`). Surfaces of one seed are along one draw of directions, scaled to the
filters of the model each is of, so that they compare as those of Li et al. (2018) do. Surfaces in one file, drawn in
one frame, are all along the very same directions, scaled to the filters of the first model. They do not compare so: a
model with shorter filters is moved by more than their length, and looks steeper.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor

from flatfed.analysis import trained_model
from flatfed.analysis.landscape import directions
from flatfed.analysis.landscape.landscape_file import About, Landscape, Model, Unfinished, write
from flatfed.analysis.landscape.points import HELPS, Points, choose
from flatfed.analysis.trained_model import Inputs, Trained
from flatfed.engine.job.machine import pick_device
from flatfed.engine.job.progress import duration
from flatfed.engine.layout import Layout
from flatfed.engine.memory import shortage
from flatfed.errors import DataError, FlatFedError
from flatfed.files import digest_arrays
from flatfed.runs import record as records
from flatfed.runs.analysed import Digests
from flatfed.runs.record import RunRecord

SAVED = 1.0  # seconds between two writes of unfinished points; a block that takes longer is written at once
REPORTED = 15.0  # seconds between two lines on standard error


@dataclass(frozen=True)
class Settings:
    """What is evaluated: ``grid`` points along a direction, out to ``range`` times the filter norms on both sides.

    ``set`` and ``images`` choose the data (None: all), ``seed`` draws images and directions, ``way`` is one of
    ``flatfed.analysis.landscape.points.WAYS``, or auto.
    """

    grid: int
    range: float
    set: str
    images: int | None
    seed: int
    way: str


@dataclass(frozen=True)
class Frame:
    """The ``first`` run with its data, and the weights ``rows`` (models, parameters) of all ``models``."""

    first: Trained
    rows: Tensor
    models: list[Model]

    @property
    def diverged(self) -> np.ndarray:
        """Whether the run of each model diverged, (models,)."""
        return np.array([model.diverged_at is not None for model in self.models])


@dataclass(frozen=True)
class Section:
    """Through which weights a landscape goes: a plane around each model, or a line.

    ``weights`` returns those of points (n,), by number, as rows (n, parameters). ``void`` has the landscape's shape and
    is true at points of models that diverged. ``normalised`` says to which filters directions are scaled.
    """

    kind: str
    x: np.ndarray
    y: np.ndarray
    weights: Callable[[np.ndarray], Tensor]
    void: np.ndarray
    normalised: str


def surface(
    runs: Sequence[str | os.PathLike[str]], inputs: Inputs, out: str | os.PathLike[str], settings: Settings
) -> None:
    """Write the surfaces of all ``runs`` to ``out``; data and partition are those of the first.

    A call that was stopped goes on when it is called again. Raises DataError for runs that do not fit their data or
    each other, FlatFedError for a grid without points on both sides of the model or a range that is no length.

    A model whose run diverged has no losses (NaN), nor has any if the run is the first, whose filters lend the scale.
    """
    if settings.grid < 3 or settings.grid % 2 == 0:
        raise FlatFedError(
            f"grid: {settings.grid} points: wanted is an odd number from 3, so that the model is one of them"
        )
    if not 0 < settings.range < math.inf:
        raise FlatFedError(f"range: {settings.range}: wanted is a finite number, more than 0")
    with shortage.explained(pick_device(inputs.device), f"surface of {runs[0]}", HELPS):
        frame = _frame(runs, inputs)
        _make(frame, _planes(frame, settings), settings, out)


def _planes(frame: Frame, settings: Settings) -> Section:
    """Return the plane around each model of ``frame``, all along the same directions."""
    grid, rows = settings.grid, frame.rows
    along = np.arange(-(grid // 2), grid // 2 + 1) * (settings.range / (grid // 2))
    first, second = directions.draw(frame.first.layout, rows[0], settings.seed)

    def weights(points: np.ndarray) -> Tensor:
        models, x, y = np.unravel_index(points, (len(rows), grid, grid))
        at = [torch.from_numpy(along[steps]).to(first)[:, None] for steps in (x, y)]
        return rows[torch.from_numpy(models).to(rows.device)] + at[0] * first + at[1] * second

    void = np.broadcast_to((frame.diverged | frame.diverged[0])[:, None, None], (len(rows), grid, grid))
    whose = "to the model's own filters" if len(rows) == 1 else "to the filters of the first model"
    return Section("surface", along, along, weights, void, whose)


def line(
    runs: Sequence[str | os.PathLike[str]], inputs: Inputs, out: str | os.PathLike[str], settings: Settings
) -> None:
    """Write the losses on the line through the models of two ``runs`` to ``out``: (1 - x) w_0 + x w_1.

    ``grid`` points from the one to the other, both included; beyond each, as far as ``range`` lengths of that way, at
    the same distances. No losses (NaN) where either run diverged. Else as :func:`surface`.
    """
    if settings.grid < 2:
        raise FlatFedError(f"grid: {settings.grid} points: a line has at least its two ends")
    if not 0 <= settings.range < math.inf:
        raise FlatFedError(f"range: {settings.range}: wanted is a finite number, 0 or more")
    with shortage.explained(pick_device(inputs.device), f"line from {runs[0]}", HELPS):
        frame = _frame(runs, inputs)
        _make(frame, _straight(frame, settings), settings, out)


def _straight(frame: Frame, settings: Settings) -> Section:
    """Return the line through the two models of ``frame``."""
    beyond = int(settings.range * (settings.grid - 1) + 1e-9)
    along = np.arange(-beyond, settings.grid + beyond) / (settings.grid - 1)

    def weights(points: np.ndarray) -> Tensor:
        share = torch.from_numpy(along[points]).to(frame.rows)[:, None]
        return torch.lerp(frame.rows[:1], frame.rows[1:], share)

    void = np.full(len(along), frame.diverged.any())
    return Section("line", along, np.zeros(0), weights, void, "not at all")


def _frame(runs: Sequence[str | os.PathLike[str]], inputs: Inputs) -> Frame:
    """Return the models of ``runs``; DataError for runs of other models or data than the first."""
    first = trained_model.load(runs[0], inputs)
    rows, models = [first.row], [_model(first.record, first.digests, first.row, first.layout)]
    for run in runs[1:]:
        record = records.read_finished(run)
        if record.dataset_digest != first.digests.dataset:
            raise DataError(f"{run}: was trained on other data than {runs[0]}: their losses do not compare")
        for key in ("model", "dataset"):
            ours, theirs = first.description[key], record.description[key]
            if ours != theirs:
                raise DataError(f"{run}: {key} is {theirs}, but {ours} in {runs[0]}: no common frame")
        row, digests = trained_model.read_weights(run, record, first.layout)
        rows.append(row.to(first.row))
        models.append(_model(record, digests, rows[-1], first.layout))
    return Frame(first, torch.stack(rows), models)


def _model(record: RunRecord, digests: Digests, row: Tensor, layout: Layout) -> Model:
    """Return what a file says of one of its models, whose weights are ``row`` (parameters,)."""
    return Model(
        name=record.name,
        algorithm=record.description["algorithm"],
        scale=record.description["scale"],
        digests=digests,
        filter_length=directions.length(layout, row),
        diverged_at=record.diverged_at,
    )


def _make(frame: Frame, section: Section, settings: Settings, out: str | os.PathLike[str]) -> None:
    """Evaluate every point of ``section``, block by block, and write the file.

    Points of models that diverged are not evaluated: they are NaN.
    """
    trained = frame.first
    index = trained.choose(settings.set, settings.images, settings.seed)
    about = About(
        **{**asdict(settings), "images": len(index)},
        models=frame.models,
        images_sha256=digest_arrays(images=np.sort(index.cpu().numpy())),
        device=trained.row.device.type,
        precision=str(trained.row.dtype).removeprefix("torch."),
        normalised=section.normalised,
    )
    void = section.void.reshape(-1)
    unfinished = Unfinished(out, {"kind": section.kind, **asdict(about)}, len(void))
    if not unfinished.way:
        unfinished.way = choose(trained, index) if settings.way == "auto" else settings.way
    points = Points(trained, index, unfinished.way)
    if void.any():
        names = ", ".join(model.name for model in frame.models if model.diverged_at is not None)
        print(f"{trained.name}: {section.kind}: diverged, so without losses: {names}", file=sys.stderr)
    _evaluate(points, section.weights, unfinished, void, f"{trained.name}: {section.kind}, {points.way}")
    unfinished.values[:, void] = np.nan  # a block may have held points of both kinds
    loss, accuracy = unfinished.values.reshape(2, *section.void.shape)
    write(out, Landscape(section.kind, replace(about, way=points.way), section.x, section.y, loss, accuracy))
    unfinished.discard()


def _evaluate(
    points: Points, weights: Callable[[np.ndarray], Tensor], unfinished: Unfinished, void: np.ndarray, label: str
) -> None:
    """Evaluate what ``unfinished`` lacks and is not ``void`` (points,).

    Blocks are the same whatever is done already, and so is their rounding.
    """
    total = len(unfinished.done)
    began = saved = reported = time.monotonic()
    before = int(unfinished.done.sum())
    if before:
        print(f"{label}: goes on, {before} of {total} points are done", file=sys.stderr)
    for start in range(0, total, points.block):
        block = np.arange(start, min(start + points.block, total))
        if (unfinished.done | void)[block].all():
            continue
        unfinished.values[:, block] = points.at(block, weights, label)
        unfinished.done[block] = True
        now = time.monotonic()
        if now - saved > SAVED:
            unfinished.save()
            saved = now
        if now - reported > REPORTED:
            done = int(unfinished.done.sum())
            left = duration((now - began) / (done - before) * (total - done))
            print(f"{label}: {done}/{total} points, {left} left", file=sys.stderr)
            reported = now
