"""The file of a loss surface, and what is kept of one that is not finished. Needs NumPy only.

``surface.npz`` holds arrays and no object (``numpy.load`` reads it without pickle):

    format    3
    kind      "surface"
    about     JSON, an :class:`AboutLandscape`
    x, y      (n,) coordinates along the first and the second direction
    loss      (1, n, n), mean cross-entropy in nats: loss[0, i, j] at w + x[i] d_1 + y[j] d_2; far from the model it may
              be infinite or NaN
    accuracy  likewise, fractions
    sha256    of all other arrays (:func:`flatfed.files.digest_arrays`), by which an edited file is known

Nothing in it depends on when or in how many sessions it was made: the same call gives the same bytes.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flatfed import forms
from flatfed.errors import DataError
from flatfed.files import UNREADABLE, digest_arrays, unfinished, write_whole
from flatfed.runs.analysed import AnalysedModel

FORMAT, KIND = 3, "surface"
REMEDY = "delete it; the next call makes it again"
ARRAYS = ("x", "y", "loss", "accuracy")


@dataclass(frozen=True, kw_only=True)
class Model(AnalysedModel):
    """The model of a surface. ``diverged_at``: the round in which its run diverged, or None.

    Where a run diverged, all losses are NaN.
    """

    algorithm: str
    diverged_at: int | None


@dataclass(frozen=True, kw_only=True)
class AboutLandscape:
    """Of which models, on which images and how a landscape is.

    ``images`` of the ``set`` (how many), ``images_sha256`` (which: of their positions in the data set, sorted) and the
    directions are drawn by ``seed``; ``grid`` and ``range`` are those of ``SectionSettings``.
    """

    models: list[Model]
    set: str
    images: int
    images_sha256: str
    seed: int
    grid: int
    range: float
    device: str
    precision: str


@dataclass(frozen=True)
class Landscape:
    """What a file holds; see the module for shapes and units."""

    about: AboutLandscape
    x: np.ndarray
    y: np.ndarray
    loss: np.ndarray
    accuracy: np.ndarray


def write(path: Path, landscape: Landscape) -> None:
    """Write ``landscape`` to ``path``, whole."""
    arrays = {name: getattr(landscape, name) for name in ARRAYS}
    about = np.array(json.dumps(asdict(landscape.about), sort_keys=True))
    content = {"format": np.array(FORMAT), "kind": np.array(KIND), "about": about, **arrays}
    with write_whole(path) as file:
        np.savez_compressed(file, **content, sha256=np.array(digest_arrays(**content)))


def read(path: str | Path) -> Landscape:
    """Return the landscape in the file ``path``.

    :raises DataError: the file is absent, damaged, edited, or of another form.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            content = dict(file)
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']}, but {FORMAT} is known")
        about = forms.read(AboutLandscape, json.loads(str(content["about"])), "about")
        found = Landscape(about, **{name: content[name] for name in ARRAYS})
        if content.pop("sha256", None) != digest_arrays(**content):
            raise ValueError("changed after it was written: its sha256 is missing or not that of its arrays")
    except FileNotFoundError:
        raise DataError(f"{path}: no such loss surface") from None
    except (DataError, *UNREADABLE) as error:
        raise DataError(f"{path}: cannot be read as a loss surface ({error}); {REMEDY}") from error
    shape = (1, len(found.x), len(found.y))
    if not found.loss.shape == found.accuracy.shape == shape:
        raise DataError(f"{path}: a surface with losses of shape {found.loss.shape}, not {shape}; {REMEDY}")
    return found


class Unfinished:
    """The points of a landscape that are done, in a hidden file beside ``out`` (:func:`flatfed.files.unfinished`).

    ``values`` (2, points) are losses and accuracies, ``done`` (points,) says which are there: those of an earlier call,
    none of a file that is damaged.
    """

    def __init__(self, out: Path, identity: dict[str, Any], points: int):
        stem = unfinished(out, identity)
        self.path = stem.with_name(f"{stem.name}.points")
        self.values, self.done = np.zeros((2, points)), np.zeros(points, dtype=bool)
        with contextlib.suppress(*UNREADABLE), np.load(self.path, allow_pickle=False) as file:
            self.values[:], self.done[:] = file["values"], file["done"]

    def save(self) -> None:
        """Write the points to the file, whole."""
        with write_whole(self.path) as file:
            np.savez(file, values=self.values, done=self.done)

    def discard(self) -> None:
        """Remove the file: the landscape is written."""
        self.path.unlink(missing_ok=True)
