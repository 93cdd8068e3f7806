"""Loss surfaces in three dimensions: the first model of a panel as a surface, a second one as a mesh.

As in FedSAM, Figure 2, FedLESAM, Figures 1, 3, 6, FedSMOO, Figure 3, and DFedSAM, Figure 2. Panels share their axes.
"""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn
from matplotlib.colors import Colormap, PowerNorm, to_rgba
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from flatfed.figures.loss_surfaces import LossSurface, explanation, read_surfaces, reason_empty
from flatfed.figures.style import WIDTH, caption, quantity, title
from flatfed.plan.at_scale import ShownFigure

COLOURS: Colormap = seaborn.color_palette("viridis", as_cmap=True)
MESH = "#1f2328"

#: The most lines of a mesh in a direction: the surface below stays visible.
MESH_LINES = 25

#: Light from the upper left, towards the reader.
LIGHT = np.array([-0.45, -0.55, 1.0]) / np.linalg.norm([-0.45, -0.55, 1.0])


def draw(spec: ShownFigure) -> Figure:
    """Return a figure of kind "surface"."""
    surfaces, limits = read_surfaces(spec)
    across = min(3, len(surfaces))
    down = math.ceil(len(surfaces) / across)
    side, head, foot = WIDTH / max(2, across), 0.2, 0.06
    height = 0.86 * side
    top = 0.1 + 0.16 * len(title(spec).splitlines())
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
        if reason := reason_empty(panel):
            axis.text2D(0.5, 0.5, reason, transform=axis.transAxes, ha="center", color="#777777", fontsize=8)
            continue
        # One collection for both: matplotlib sorts faces by depth only within a collection.
        parts = [_faces(panel[0], limits), *map(_mesh, panel[1:])]
        corners, faces, edges = (np.concatenate(values) for values in zip(*parts, strict=True))
        axis.add_collection3d(Poly3DCollection(corners, facecolors=faces, edgecolors=edges, linewidths=0.35))
    caption(figure, spec, explanation(surfaces))
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
