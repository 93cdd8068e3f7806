"""The loss surfaces that a figure is drawn from: read, checked against each other, and put into words.

What is drawn of them: ``surface_3d`` and :class:`flatfed.experiment.panels.DrawnPanel`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flatfed.analysis.landscape.landscape_file import LandscapeSetUp, read
from flatfed.errors import DataError
from flatfed.experiment.panels import FigureSpec, Mark
from flatfed.figures.style import quantity
from flatfed.runs.paths import RunIds, without_label

#: What to do about surfaces that are on other images.
MEND = "models of different splits do on images that all splits have: `set: test` in the figure"

#: Stands in the panel of a file that is not there.
NOT_MADE = "not made"


@dataclass(frozen=True)
class Sheet:
    """One surface to draw: ``z`` (n, n) in printed units at ``x[i], y[j]``, NaN where it is not finite.

    ``about`` describes the ``file``.
    """

    file: str
    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    about: LandscapeSetUp

    @property
    def diverged(self) -> str:
        """Which run diverged and in which round where there is no finite z for that, else ""."""
        for model in self.about.models:
            if model.diverged_at is not None:
                return f"{model.algorithm} diverged in round {model.diverged_at}"
        return ""


def why_empty(panel: list[Sheet | None]) -> str:
    """Return the words that stand in a panel in place of its surfaces, "" where they can be drawn."""
    if None in panel:
        return NOT_MADE
    return "\n".join(dict.fromkeys(sheet.diverged for sheet in panel if sheet.diverged))


def sheets(spec: FigureSpec) -> tuple[list[list[Sheet | None]], tuple[float, float]]:
    """Return every panel's surfaces, None for those that are not made, and the common limits of z.

    :raises DataError: the metric is unknown, a file is damaged or no surface, or surfaces to be compared are of
        different images, draws or grids.
    """
    metric = spec.metric or "loss"
    factor = quantity(spec, metric).factor
    found = [[_sheet(entry, metric, factor) for entry in panel.marks] for panel in spec.panels]
    _refuse_different(spec, found)
    values = [z for panel in found for sheet in panel if sheet for z in sheet.z.flat if np.isfinite(z)]
    low, high = float(min(values, default=0.0)), float(max(values, default=1.0))
    return found, (low, high if high > low else low + 1.0)


def _refuse_different(spec: FigureSpec, found: list[list[Sheet | None]]) -> None:
    """Refuse surfaces of a panel, or of panels of one protocol, that do not compare (:func:`_protocol`); DataError."""
    firsts: dict[str, tuple[str, Sheet]] = {}
    for panel, made in zip(spec.panels, found, strict=True):
        for sheet in filter(None, made):
            model = sheet.about.models[0]
            protocol = without_label(RunIds.of_folder(model.scale, model.name).protocol)
            for group in (f"panel {panel.title}", protocol):
                where, first = firsts.setdefault(group, (panel.title, sheet))
                for ours, theirs in zip(_protocol(sheet.about), _protocol(first.about), strict=True):
                    if ours != theirs:
                        raise DataError(
                            f"figure {spec.figure}: {panel.title}: {sheet.file} has {ours}, but {first.file} ({where}) "
                            f"{theirs}: they do not compare" + (f"; {MEND}" if "other images" in ours else "")
                        )


def _protocol(about: LandscapeSetUp) -> list[str]:
    """Return in words all that comparable surfaces have in common."""
    return [
        f"losses on another data set (SHA-256 {about.models[0].digests.dataset[:12]})",
        f"losses on {about.set} images",
        f"losses on other images (SHA-256 of their positions {about.images_sha256[:12]})",
        f"directions of draw {about.seed}",
        f"a range of {about.range}",
        f"{about.grid} points along a direction",
    ]


def explanation(found: list[list[Sheet | None]]) -> str:
    """Say what the axes are, on which images, and what is not there."""
    there = [sheet for panel in found for sheet in panel if sheet and not sheet.diverged]
    said = []
    if there:
        seeds = ", ".join(str(seed) for seed in sorted({sheet.about.seed for sheet in there}))
        said.append(
            f"x, y: steps along two random directions (draw {seeds}, the same for all), orthogonal in every filter and "
            "scaled to each model's own filters; biases and normalisation layers stay."
        )
        digests: dict[str, set[str]] = {}
        for about in (sheet.about for sheet in there):
            words = "of the clients' training images" if about.set == "train" else "test images"
            digests.setdefault(f"{about.images:,} {words}", set()).add(about.images_sha256)
        same = len(there) > 1 and [len(which) for which in digests.values()] == [1]
        said.append(f"On {' or '.join(sorted(digests))}{', the same for all' if same else ''}.")
    wild = sum(int((~np.isfinite(sheet.z)).sum()) for sheet in there)
    if wild:
        said.append(f"{wild} points without a finite value are left out.")
    reasons = [sheet.diverged if sheet else NOT_MADE for panel in found for sheet in panel]
    if NOT_MADE in reasons:
        said.append(f"Missing surfaces: {reasons.count(NOT_MADE)}.")
    if gone := ", ".join(dict.fromkeys(why for why in reasons if why not in ("", NOT_MADE))):
        said.append(f"Without a surface: {gone}.")
    return " ".join(said)


def _sheet(mark: Mark, metric: str, factor: float) -> Sheet | None:
    """Return the surface of a mark, None where it has not been made.

    :raises DataError: the file is damaged, or of another model than the run of the mark has.
    """
    (file,) = mark.files
    if not Path(file).is_file():
        return None
    found = read(file)
    for model, run in zip(found.about.models, mark.runs, strict=False):
        run.check_analysis(file, model)
    z = factor * getattr(found, metric)[0]
    return Sheet(file, found.x, found.y, np.where(np.isfinite(z), z, np.nan), found.about)
