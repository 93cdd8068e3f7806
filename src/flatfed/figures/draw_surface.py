"""Loss surfaces in three dimensions: the first model of a panel as a surface, a second one as a mesh.

As in FedSAM, Figure 2, FedLESAM, Figures 1, 3, 6, FedSMOO, Figure 3, and DFedSAM, Figure 2. Panels share their axes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn
from matplotlib.colors import Colormap, PowerNorm, to_rgba
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from flatfed.errors import DataError
from flatfed.figures.style import WIDTH, caption, quantity
from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import Mark
from flatfed.runs.landscape_file import Landscape, LandscapeSetUp, read
from flatfed.runs.paths import RunIds, without_label

COLOURS: Colormap = seaborn.color_palette("viridis", as_cmap=True)
MESH = "#1f2328"

#: The most lines of a mesh in a direction: the surface below stays visible.
MESH_LINES = 25

#: Light from the upper left, towards the reader.
LIGHT = np.array([-0.45, -0.55, 1.0]) / np.linalg.norm([-0.45, -0.55, 1.0])

#: Remedy for surfaces on different images.
REMEDY = "models of different splits compare on test images: `set: test` in the figure"


@dataclass(frozen=True)
class LossSurface(Landscape):
    """A surface of a ``file``: ``z`` (n, n) in printed units at ``x[i], y[j]``, NaN if not finite."""

    file: str
    z: np.ndarray

    @property
    def diverged(self) -> str:
        """The run that diverged and its round, or ""."""
        model = self.about.models[0]
        return "" if model.diverged_at is None else f"{model.algorithm} diverged in round {model.diverged_at}"


def draw(spec: ShownFigure) -> Figure:
    """Return a figure of kind "surface".

    :raises DataError: the metric is unknown, a file is damaged, or surfaces differ in images, draw or grid.
    """
    surfaces, limits = _read_surfaces(spec)
    across = min(3, len(surfaces))
    down = math.ceil(len(surfaces) / across)
    side, head, foot = WIDTH / max(2, across), 0.2, 0.06
    height = 0.86 * side
    top = 0.05
    tall = top + down * (height + head) + foot
    figure = plt.figure(figsize=(WIDTH, tall))
    example = next((surface for panel in surfaces for surface in panel if surface), None)
    for number, panel in enumerate(surfaces):
        row, column = divmod(number, across)
        bottom = 1 - (top + (row + 1) * (height + head)) / tall
        margin = (WIDTH - min(across, len(surfaces) - row * across) * side) / 2
        edge, wide = (margin + column * side) / WIDTH, side / WIDTH
        axis = figure.add_axes((edge, bottom, 0.95 * wide, height / tall), projection="3d")
        middle, above = edge + wide / 2, bottom + height / tall
        figure.text(middle, above - 0.01 / tall, spec.panels[number].title, ha="center", fontsize=9)
        if len(panel) > 1:
            labels = [mark.label for mark in spec.panels[number].marks]
            text = f"surface: {labels[0]}, mesh: {labels[1]}"
            figure.text(middle, above - 0.15 / tall, text, ha="center", fontsize=7, color="#555555")
        _frame(axis, spec, limits, example)
        if reason := _reason_empty(panel):
            axis.text2D(0.5, 0.5, reason, transform=axis.transAxes, ha="center", color="#777777", fontsize=8)
            continue
        # One collection for both: matplotlib sorts faces by depth only within a collection.
        parts = [_faces(panel[0], limits), *map(_mesh, panel[1:])]
        corners, faces, edges = (np.concatenate(values) for values in zip(*parts, strict=True))
        axis.add_collection3d(Poly3DCollection(corners, facecolors=faces, edgecolors=edges, linewidths=0.35))
    caption(figure, spec, _explanation(surfaces))
    return figure


def _frame(axis: Any, spec: ShownFigure, limits: tuple[float, float], example: LossSurface | None) -> None:
    axis.view_init(elev=25, azim=-58)
    axis.set_box_aspect((1, 1, 0.75), zoom=1.0)
    axis.set_zlim(*limits)
    if example:
        axis.set(xlim=example.x[[0, -1]], ylim=example.y[[0, -1]])
        axis.set_xticks(*_ticks(example.x))
        axis.set_yticks(*_ticks(example.y))
    axis.set_xlabel("$x$", labelpad=-8)
    axis.set_ylabel("$y$", labelpad=-8)
    axis.set_zlabel(quantity(spec, spec.metric).label, labelpad=-6)
    # No tick in the corner, next to the last one of the other axis.
    lowest = limits[0] + 0.06 * (limits[1] - limits[0])
    heights = [tick for tick in plt.MaxNLocator(5).tick_values(*limits) if lowest <= tick <= limits[1]]
    axis.set_zticks(heights, [f"{tick:.6g}" for tick in heights])
    plt.setp(axis.get_xticklabels(), ha="right")
    plt.setp([*axis.get_yticklabels(), *axis.get_zticklabels()], ha="left")
    for line in (axis.xaxis, axis.yaxis, axis.zaxis):
        line.set_pane_color((1, 1, 1, 0))
        line._axinfo["grid"].update(color="#e3e3e3", linewidth=0.5)
        line.set_tick_params(pad=-6 if line is axis.zaxis else -4, labelsize=6)


def _ticks(along: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return ticks at the ends and at the model, and their labels."""
    ticks = np.linspace(along[0], along[-1], 3)
    return ticks, [f"{tick:g}" for tick in ticks]


def _quads(surface: LossSurface, step: int) -> np.ndarray:
    """Return the corners (faces, 4, 3) of the grid's cells, every ``step`` points, without cells with NaN."""
    keep = np.unique([*range(0, len(surface.x), step), len(surface.x) - 1])
    x, y = np.meshgrid(surface.x[keep], surface.y[keep], indexing="ij")
    points = np.stack([x, y, surface.z[np.ix_(keep, keep)]], axis=-1)
    cells = np.stack([points[:-1, :-1], points[1:, :-1], points[1:, 1:], points[:-1, 1:]], axis=2).reshape(-1, 4, 3)
    return cells[np.isfinite(cells).all(axis=(1, 2))]


def _faces(surface: LossSurface, limits: tuple[float, float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return corners, face and edge colours of a surface, coloured by height and lit from the side."""
    corners = _quads(surface, 1)
    # By the square root of the height: most faces of a bowl are near its floor.
    colours = COLOURS(PowerNorm(0.5, *limits)(corners[:, :, 2].mean(axis=1)))
    spread = np.array([np.ptp(surface.x), np.ptp(surface.y), max(limits[1] - limits[0], 1e-12)])
    normal = np.cross((corners[:, 2] - corners[:, 0]) / spread, (corners[:, 3] - corners[:, 1]) / spread)
    lit = np.abs(normal @ LIGHT) / np.maximum(np.linalg.norm(normal, axis=1), 1e-12)
    colours[:, :3] *= (0.72 + 0.28 * lit)[:, None]
    return corners, colours, colours


def _mesh(surface: LossSurface) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    corners = _quads(surface, max(1, math.ceil((len(surface.x) - 1) / MESH_LINES)))
    edges = np.tile(to_rgba(MESH, 0.85), (len(corners), 1))
    return corners, np.zeros_like(edges), edges


def _reason_empty(panel: list[LossSurface | None]) -> str:
    """Return the text in place of missing surfaces of a panel, or ""."""
    if None in panel:
        return "not made"
    return "\n".join(dict.fromkeys(surface.diverged for surface in panel if surface.diverged))


def _read_surfaces(spec: ShownFigure) -> tuple[list[list[LossSurface | None]], tuple[float, float]]:
    """Return the surfaces of every panel, None without a file, and the common limits of z."""
    surfaces = [[_surface(spec, mark) for mark in panel.marks] for panel in spec.panels]
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


def _explanation(surfaces: list[list[LossSurface | None]]) -> str:
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


def _surface(spec: ShownFigure, mark: Mark) -> LossSurface | None:
    """Return the surface of a mark, None without a file; DataError for that of another model than the mark's run."""
    (file,), (run,) = mark.files, mark.runs
    if not Path(file).is_file():
        return None
    landscape = read(file)
    run.check_analysis(file, landscape.about.models[0])
    z = quantity(spec, spec.metric).factor * getattr(landscape, spec.metric)[0]
    return LossSurface(**vars(landscape), file=file, z=np.where(np.isfinite(z), z, np.nan))
