"""Reads, compares and describes the loss surfaces of a figure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flatfed.analysis.landscape_file import LandscapeSetUp, read
from flatfed.errors import DataError
from flatfed.figures.style import quantity
from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import Mark
from flatfed.runs.paths import RunIds, without_label

#: Remedy for surfaces on different images.
REMEDY = "models of different splits compare on test images: `set: test` in the figure"


@dataclass(frozen=True)
class LossSurface:
    """A surface: ``z`` (n, n) in printed units at ``x[i], y[j]``, NaN if not finite."""

    file: str
    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    about: LandscapeSetUp

    @property
    def diverged(self) -> str:
        """The run that diverged and its round, or ""."""
        for model in self.about.models:
            if model.diverged_at is not None:
                return f"{model.algorithm} diverged in round {model.diverged_at}"
        return ""


def reason_empty(panel: list[LossSurface | None]) -> str:
    """Return the text in place of missing surfaces of a panel, or ""."""
    if None in panel:
        return "not made"
    return "\n".join(dict.fromkeys(surface.diverged for surface in panel if surface.diverged))


def read_surfaces(spec: ShownFigure) -> tuple[list[list[LossSurface | None]], tuple[float, float]]:
    """Return the surfaces of every panel, None without a file, and the common limits of z.

    :raises DataError: the metric is unknown, a file is damaged, or surfaces differ in images, draw or grid.
    """
    metric = spec.metric
    factor = quantity(spec, metric).factor
    surfaces = [[_surface(mark, metric, factor) for mark in panel.marks] for panel in spec.panels]
    _check_comparable(spec, surfaces)
    values = [z for panel in surfaces for surface in panel if surface for z in surface.z.flat if np.isfinite(z)]
    low, high = float(min(values, default=0.0)), float(max(values, default=1.0))
    return surfaces, (low, high if high > low else low + 1.0)


def _check_comparable(spec: ShownFigure, surfaces: list[list[LossSurface | None]]) -> None:
    """Raise DataError if surfaces of one panel, or of one protocol, differ in :func:`_setup`."""
    firsts: dict[str, tuple[str, LossSurface]] = {}
    for panel, of_panel in zip(spec.panels, surfaces, strict=True):
        for surface in filter(None, of_panel):
            model = surface.about.models[0]
            protocol = without_label(RunIds.of_folder(model.scale, model.name).protocol)
            for group in (f"panel {panel.title}", protocol):
                where, first = firsts.setdefault(group, (panel.title, surface))
                for ours, theirs in zip(_setup(surface.about), _setup(first.about), strict=True):
                    if ours != theirs:
                        remedy = f"; {REMEDY}" if "other images" in ours else ""
                        raise DataError(
                            f"figure {spec.id}: {panel.title}: {surface.file} has {ours}, but {first.file} "
                            f"({where}) {theirs}: they do not compare{remedy}"
                        )


def _setup(about: LandscapeSetUp) -> list[str]:
    """Return the properties that comparable surfaces share, in words."""
    return [
        f"losses on another dataset (SHA-256 {about.models[0].digests.dataset[:12]})",
        f"losses on {about.set} images",
        f"losses on other images (SHA-256 of their positions {about.images_sha256[:12]})",
        f"directions of draw {about.seed}",
        f"a range of {about.range}",
        f"{about.grid} points along a direction",
    ]


def explanation(surfaces: list[list[LossSurface | None]]) -> str:
    """Return the caption: axes, images, and missing surfaces."""
    all_surfaces = [surface for panel in surfaces for surface in panel]
    drawn = [surface for surface in all_surfaces if surface and not surface.diverged]
    texts = []
    if drawn:
        seeds = ", ".join(map(str, sorted({surface.about.seed for surface in drawn})))
        texts.append(
            f"x, y: steps along two random directions (draw {seeds}, the same for all), orthogonal in every filter and "
            "scaled to each model's own filters; biases and normalisation layers stay fixed."
        )
        kinds = {"train": "of the clients' training images", "test": "test images"}
        images = {(f"{s.about.images:,} {kinds[s.about.set]}", s.about.images_sha256) for s in drawn}
        same = ", the same for all" if len(drawn) > 1 and len(images) == 1 else ""
        texts.append(f"On {' or '.join(sorted({text for text, _ in images}))}{same}.")
    if infinite := sum(int((~np.isfinite(surface.z)).sum()) for surface in drawn):
        texts.append(f"{infinite} points without a finite value are left out.")
    if absent := all_surfaces.count(None):
        texts.append(f"Missing surfaces: {absent}.")
    if diverged := dict.fromkeys(surface.diverged for surface in all_surfaces if surface and surface.diverged):
        texts.append(f"Without a surface: {', '.join(diverged)}.")
    return " ".join(texts)


def _surface(mark: Mark, metric: str, factor: float) -> LossSurface | None:
    """Return the surface of a mark, None without a file.

    :raises DataError: the file is damaged, or of another model than the run of the mark.
    """
    (file,) = mark.files
    if not Path(file).is_file():
        return None
    landscape = read(file)
    for model, run in zip(landscape.about.models, mark.runs, strict=False):
        run.check_analysis(file, model)
    z = factor * getattr(landscape, metric)[0]
    return LossSurface(file, landscape.x, landscape.y, np.where(np.isfinite(z), z, np.nan), landscape.about)
