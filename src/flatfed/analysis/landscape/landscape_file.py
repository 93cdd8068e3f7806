"""The file of a loss surface, and what is kept of one that is not finished. Needs NumPy only.

``surface.npz`` holds arrays and no object (``numpy.load`` reads it without pickle):

    format    2; earlier files have none, and do not say on which images they are
    kind      "surface", or "line" (between two models)
    about     JSON, see below
    x, y      (n,) coordinates along the first and the second direction; of a line, x is the share of the second
              model and y is empty
    loss      (models, n, n), mean cross-entropy in nats: loss[m, i, j] at w_m + x[i] d_1 + y[j] d_2;
              of a line (n,), at (1 - x[i]) w_0 + x[i] w_1. Far from a model it may be infinite or NaN
    accuracy  likewise, fractions

``about``: ``models``, for each its description's ``name`` (<protocol>/<split>/<algorithm>/seed<k>), ``algorithm``,
``scale``, ``digests``, ``filter_length`` (the norm of all its filters; null where it is not finite) and ``diverged_at``
(the round in which its run diverged, or null; its losses are NaN, and those of every model where it is the first, or of
a line); ``set``, ``images`` (how many), ``images_sha256`` (which: of their positions in the data set, sorted), ``seed``
(of directions and images), ``grid``, ``range``, ``way`` (sequential or stacked), ``device``, ``precision``, and
``normalised``: to which filters the directions are scaled.
Nothing in it depends on when or in how many sessions it was made: the same call gives the same bytes.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from flatfed.errors import DataError
from flatfed.files import unfinished, write_whole

FORMAT = 2
UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class Landscape:
    """What a file holds; see the module for shapes and units."""

    kind: str
    about: dict[str, Any]
    x: np.ndarray
    y: np.ndarray
    loss: np.ndarray
    accuracy: np.ndarray


def write(path: str | os.PathLike[str], found: Landscape) -> None:
    """Write ``found`` to ``path``, whole."""
    arrays = {name: getattr(found, name) for name in ("x", "y", "loss", "accuracy")}
    with write_whole(path) as file:
        about = np.array(json.dumps(found.about, sort_keys=True))
        np.savez_compressed(file, format=np.array(FORMAT), kind=np.array(found.kind), about=about, **arrays)


def read(path: str | os.PathLike[str]) -> Landscape:
    """Return the landscape in the file ``path``.

    :raises DataError: the file is absent, damaged, or of another form.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            number = int(file["format"]) if "format" in file.files else 1
            if number != FORMAT:
                raise ValueError(f"format {number}, but {FORMAT} is known")
            arrays = {name: file[name] for name in ("x", "y", "loss", "accuracy")}
            found = Landscape(str(file["kind"]), json.loads(str(file["about"])), **arrays)
    except FileNotFoundError:
        raise DataError(f"{path}: no such loss surface") from None
    except UNREADABLE as error:
        raise DataError(f"{path}: cannot be read as a loss surface ({error}); delete it to make it again") from error
    models = (len(found.about["models"]),) if found.kind == "surface" else ()
    shape = (*models, len(found.x), *((len(found.y),) if found.kind == "surface" else ()))
    if found.kind not in ("surface", "line") or found.loss.shape != shape or found.accuracy.shape != shape:
        raise DataError(
            f"{path}: a {found.kind} with losses of shape {found.loss.shape}, not {shape}; delete it to make it again"
        )
    return found


class Unfinished:
    """The points of a landscape that are done, in a hidden file beside ``out`` (:func:`flatfed.files.unfinished`).

    ``values`` (2, points) are losses and accuracies, ``done`` (points,) says which are there, ``way`` how they were
    evaluated, empty where there is none yet: rounding would tell points of two ways apart.
    """

    def __init__(self, out: str | os.PathLike[str], identity: dict[str, Any], points: int):
        stem = unfinished(out, identity)
        self.path = stem.with_name(f"{stem.name}.points")
        self.values, self.done, self.way = np.zeros((2, points)), np.zeros(points, dtype=bool), ""
        if self.path.exists():
            self._restore()

    def _restore(self) -> None:
        """Take the points of an earlier call; none of a file that is damaged."""
        try:
            with np.load(self.path, allow_pickle=False) as file:
                values, done, way = file["values"], file["done"], str(file["way"])
        except UNREADABLE:
            return
        if values.shape == self.values.shape and done.shape == self.done.shape:
            self.values, self.done, self.way = values, done, way

    def save(self) -> None:
        """Write the points to the file, whole."""
        with write_whole(self.path) as file:
            np.savez(file, values=self.values, done=self.done, way=np.array(self.way))

    def discard(self) -> None:
        """Remove the file: the landscape is written."""
        self.path.unlink(missing_ok=True)
