"""Loss surfaces around the models of finished runs, and the line between two of them.

A surface is the loss at w + x d_1 + y d_2 on a grid of (x, y), for two directions d_1, d_2 (see
:mod:`flatfed.analysis.landscape.directions`). Surfaces of one seed are along one draw of directions, scaled to the
filters of the model each is of, so that they compare as Li et al. (2018) do. Surfaces in one file, drawn in one frame,
are all along the very same directions, scaled to the filters of the first: they do not compare so, since a model with
shorter filters is moved by more than their length, and looks steeper for it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatfed.analysis import trained_model
from flatfed.analysis.landscape import directions
from flatfed.analysis.landscape.landscape_file import Landscape, Unfinished, write
from flatfed.analysis.landscape.points import HELPS, Points, choose
from flatfed.analysis.trained_model import Trained
from flatfed.engine.job.machine import pick_device
from flatfed.engine.job.progress import duration
from flatfed.engine.memory import shortage
from flatfed.errors import DataError, FlatFedError
from flatfed.files import digest_arrays
from flatfed.runs import record as records
from flatfed.runs.record import RunRecord

SAVED = 1.0  # seconds between two writes of unfinished points; one that takes longer is written at once
SAID = 15.0  # seconds between two lines on standard error


@dataclass(frozen=True)
class Settings:
    """What is evaluated: ``grid`` points along a direction, out to ``range`` times the filter norms on both sides.

    ``set`` and ``images`` choose the data (None: all), ``seed`` draws images and directions, ``way`` is one of
    ``flatfed.analysis.landscape.points.WAYS``, or auto.
    """

    grid: int = 51
    range: float = 1.0
    set: str = "train"
    images: int | None = 4096
    seed: int = 0
    way: str = "auto"


@dataclass(frozen=True)
class Frame:
    """The ``first`` run with its data, the weights ``rows`` (models, parameters) of all, and what is said of each."""

    first: Trained
    rows: Tensor
    models: list[dict[str, Any]]


def surface(
    runs: Sequence[str | os.PathLike[str]],
    dataset: str | os.PathLike[str],
    partition: str | os.PathLike[str],
    out: str | os.PathLike[str],
    settings: Settings,
    *,
    device: str = "auto",
    threads: int = 1,
) -> None:
    """Write the surfaces of all ``runs`` to ``out``; data and partition are those of the first.

    A call that was stopped goes on when it is called again. Raises DataError for runs that do not fit their data or
    each other, FlatFedError for a grid without points on both sides of the model or a range that is no length.

    A model whose run diverged has no losses (NaN), nor has any if the run is the first, whose filters lend the scale.
    """
    grid, reach = settings.grid, settings.range
    if grid < 3 or grid % 2 == 0:
        raise FlatFedError(f"grid: {grid} points: wanted is an odd number from 3, so that the model is one of them")
    _check_range(reach, above=0.0)
    with shortage.told(pick_device(device), f"surface of {runs[0]}", HELPS):
        _surface(_frame(runs, dataset, partition, device, threads), out, settings)


def _surface(frame: Frame, out: str | os.PathLike[str], settings: Settings) -> None:
    """Write the surfaces of the models of ``frame``."""
    grid, reach, rows = settings.grid, settings.range, frame.rows
    diverged = np.array([about["diverged_at"] is not None for about in frame.models])
    along = np.arange(-(grid // 2), grid // 2 + 1) * (reach / (grid // 2))
    first, second = directions.draw(frame.first.layout, rows[0], settings.seed)

    def place(points: np.ndarray) -> Tensor:
        models, x, y = np.unravel_index(points, (len(rows), grid, grid))
        at = [torch.from_numpy(along[steps]).to(first)[:, None] for steps in (x, y)]
        return rows[torch.from_numpy(models).to(rows.device)] + at[0] * first + at[1] * second

    whose = "to the model's own filters" if len(rows) == 1 else "to the filters of the first model"
    void = np.repeat(diverged | diverged[0], grid * grid)
    _make(frame, place, settings, out, "surface", (along, along), whose, void)


def line(
    runs: Sequence[str | os.PathLike[str]],
    dataset: str | os.PathLike[str],
    partition: str | os.PathLike[str],
    out: str | os.PathLike[str],
    settings: Settings,
    *,
    device: str = "auto",
    threads: int = 1,
) -> None:
    """Write the losses on the line through the models of two ``runs`` to ``out``: (1 - x) w_0 + x w_1.

    ``grid`` points from the one to the other, both included; beyond each, as far as ``range`` lengths of that way, at
    the same distances. No losses (NaN) where either run diverged. Else as :func:`surface`.
    """
    if len(runs) != 2:
        raise FlatFedError(f"a line is between the models of two runs, not of {len(runs)}")
    if settings.grid < 2:
        raise FlatFedError(f"grid: {settings.grid} points: a line has at least its two ends")
    _check_range(settings.range, above=None)
    with shortage.told(pick_device(device), f"line from {runs[0]}", HELPS):
        _line(_frame(runs, dataset, partition, device, threads), out, settings)


def _line(frame: Frame, out: str | os.PathLike[str], settings: Settings) -> None:
    """Write the line between the two models of ``frame``."""
    beyond = int(settings.range * (settings.grid - 1) + 1e-9)
    along = np.arange(-beyond, settings.grid + beyond) / (settings.grid - 1)

    def place(points: np.ndarray) -> Tensor:
        share = torch.from_numpy(along[points]).to(frame.rows)[:, None]
        return torch.lerp(frame.rows[:1], frame.rows[1:], share)

    void = np.repeat(any(about["diverged_at"] is not None for about in frame.models), len(along))
    _make(frame, place, settings, out, "line", (along, np.zeros(0)), "not at all", void)


def _check_range(reach: float, *, above: float | None) -> None:
    """Refuse a range that is no finite length, or not more than ``above``."""
    if not np.isfinite(reach) or reach < 0 or reach == above:
        wanted = "0 or more" if above is None else "more than 0"
        raise FlatFedError(f"range: {reach}: wanted is a finite number, {wanted}")


def _frame(runs: Sequence[str | os.PathLike[str]], dataset: Any, partition: Any, device: str, threads: int) -> Frame:
    """Return the models of ``runs``; DataError for runs of other models or data than the first."""
    first = trained_model.load(runs[0], dataset, partition, device=device, threads=threads)
    rows, models = [first.row], [_about(first.record, first.digests)]
    for run in runs[1:]:
        record = records.read_finished(run)
        if record.dataset_digest != first.digests["dataset"]:
            raise DataError(f"{run}: was trained on other data than {runs[0]}: their losses do not compare")
        for key in ("model", "dataset"):
            ours, theirs = first.description[key], record.description[key]
            if ours != theirs:
                raise DataError(f"{run}: {key} is {theirs}, but {ours} in {runs[0]}: no common frame")
        row, digest = trained_model.weights(run, record, first.layout)
        rows.append(row.to(first.row))
        own = {"run": record.description_digest, "model": digest, "partition": record.partition_digest}
        models.append(_about(record, {**first.digests, **own}))
    for about, row in zip(models, rows, strict=True):
        about["filter_length"] = directions.length(first.layout, row)
    return Frame(first, torch.stack(rows), models)


def _about(record: RunRecord, digests: dict[str, str]) -> dict[str, Any]:
    """Return what a file says of one of its models."""
    description = record.description
    return {
        "name": record.name,
        "algorithm": description["algorithm"],
        "scale": description["scale"],
        "digests": digests,
        "diverged_at": record.diverged_at,
    }


def _make(
    frame: Frame,
    place: Callable[[np.ndarray], Tensor],
    settings: Settings,
    out: str | os.PathLike[str],
    kind: str,
    axes: tuple[np.ndarray, np.ndarray],
    normalised: str,
    void: np.ndarray,
) -> None:
    """Evaluate the weights ``place(points)`` of every point of the ``axes``, block by block, and write the file.

    Points (points,) that are ``void``, of models that diverged, are not evaluated, and NaN.
    """
    trained = frame.first
    index = trained.choose(settings.set, settings.images, settings.seed)
    about = {
        **asdict(settings),
        "models": frame.models,
        "images": len(index),
        "images_sha256": digest_arrays(images=np.sort(index.cpu().numpy())),
        "device": trained.row.device.type,
        "precision": str(trained.row.dtype).removeprefix("torch."),
        "normalised": normalised,
    }
    shape = (len(frame.models), *map(len, axes)) if kind == "surface" else (len(axes[0]),)
    unfinished = Unfinished(out, {"kind": kind, **about}, int(np.prod(shape)))
    if not unfinished.way:
        unfinished.way = choose(trained, index) if settings.way == "auto" else settings.way
    points = Points(trained, index, unfinished.way)
    if void.any():
        gone = ", ".join(about["name"] for about in frame.models if about["diverged_at"] is not None)
        print(f"{trained.name}: {kind}: diverged, so without losses: {gone}", file=sys.stderr)
    _evaluate(points, place, unfinished, void, f"{trained.name}: {kind}, {points.way}")
    unfinished.values[:, void] = np.nan  # a block may have held points of both kinds
    loss, accuracy = unfinished.values.reshape(2, *shape)
    write(out, Landscape(kind, {**about, "way": points.way}, *axes, loss, accuracy))
    unfinished.discard()


def _evaluate(
    points: Points, place: Callable[[np.ndarray], Tensor], unfinished: Unfinished, void: np.ndarray, label: str
) -> None:
    """Evaluate what ``unfinished`` lacks and is not ``void`` (points,).

    Blocks are the same whatever is done already, and so is their rounding.
    """
    total = len(unfinished.done)
    began = saved = said = time.monotonic()
    before = int(unfinished.done.sum())
    if before:
        print(f"{label}: goes on, {before} of {total} points are done", file=sys.stderr)
    for start in range(0, total, points.block):
        block = np.arange(start, min(start + points.block, total))
        if (unfinished.done | void)[block].all():
            continue
        unfinished.values[:, block] = points.at(block, place, label)
        unfinished.done[block] = True
        now = time.monotonic()
        if now - saved > SAVED:
            unfinished.save()
            saved = now
        if now - said > SAID:
            done = int(unfinished.done.sum())
            left = duration((now - began) / (done - before) * (total - done))
            print(f"{label}: {done}/{total} points, {left} left", file=sys.stderr)
            said = now
