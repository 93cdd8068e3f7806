"""``surface.npz``, the file of a loss surface. Needs NumPy only.

    format    3
    kind      "surface"
    about     JSON, a :class:`LandscapeSetUp`
    x, y      (n,) coordinates along the two directions
    loss      (1, n, n), mean cross-entropy in nats: loss[0, i, j] at w + x[i] d_1 + y[j] d_2, may be infinite or NaN
    accuracy  (1, n, n), fractions
    sha256    of the other arrays (:func:`flatfed.files.digest_arrays`)

The same call writes the same bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flatfed.config.document import JsonDocument
from flatfed.config.values import Number
from flatfed.errors import DataError
from flatfed.files import UNREADABLE, digest_arrays, write_whole
from flatfed.runs.record import AnalysedModel

FORMAT, KIND = 3, "surface"
#: Increased when the numbers of the file change.
VERSION = 1
REMEDY = "delete it; the next call rebuilds it"
ARRAYS = ("x", "y", "loss", "accuracy")


class SurfaceModel(AnalysedModel):
    """The model of a surface; its losses are NaN if its run diverged, in the round ``diverged_at``."""

    algorithm: str
    diverged_at: int | None


class LandscapeSetUp(JsonDocument):
    """``SurfaceSettings``, the models, and the digest of the sorted positions of the images.

    ``images`` of the ``images_of`` images of the ``set`` are drawn by ``seed``; ``images_of`` may be unknown.
    """

    version: int = 1
    models: list[SurfaceModel]
    set: str
    images: int
    images_of: int | None = None
    images_sha256: str
    seed: int
    grid: int
    range: Number
    device: str
    precision: str


@dataclass(frozen=True)
class Landscape:
    """The content of a file; see the module for shapes and units."""

    about: LandscapeSetUp
    x: np.ndarray
    y: np.ndarray
    loss: np.ndarray
    accuracy: np.ndarray


def write(path: Path, landscape: Landscape) -> None:
    """Write ``landscape`` to ``path``, atomically."""
    arrays = {name: getattr(landscape, name) for name in ARRAYS}
    about = np.array(json.dumps(landscape.about.model_dump(), sort_keys=True))
    content = {"format": np.array(FORMAT), "kind": np.array(KIND), "about": about, **arrays}
    with write_whole(path) as file:
        np.savez_compressed(file, **content, sha256=np.array(digest_arrays(**content)))


def read(path: str | Path) -> Landscape:
    """Return the landscape in the file ``path``.

    :raises DataError: the file is absent, damaged, edited or of another form.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            content = dict(file)
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']}, but {FORMAT} is known")
        about = LandscapeSetUp.of_json(json.loads(str(content["about"])), "about")
        if content.pop("sha256", None) != digest_arrays(**content):
            raise ValueError("changed after it was written: its sha256 is missing or not that of its arrays")
        landscape = Landscape(about, **{name: content[name] for name in ARRAYS})
    except FileNotFoundError:
        raise DataError(f"{path}: no such loss surface") from None
    except (DataError, *UNREADABLE) as error:
        raise DataError(f"{path}: cannot be read as a loss surface ({error}); {REMEDY}") from error
    shape = (1, len(landscape.x), len(landscape.y))
    if not landscape.loss.shape == landscape.accuracy.shape == shape:
        raise DataError(f"{path}: a surface with losses of shape {landscape.loss.shape}, not {shape}; {REMEDY}")
    return landscape
