"""Loss surfaces in three dimensions, one model in a panel or two.

As in FedSAM, Figure 2 and FedLESAM, Figures 1, 3, 6 (one model a panel) and in FedSMOO, Figure 3 and DFedSAM, Figure 2
(one model as a surface, the other as a mesh). Every model is moved by its own filters, along one draw of directions
(Li et al. 2018), and its loss is of the same images: surfaces that are to be compared and differ in draw, grid or
images are refused. The first surface of a panel is filled, a second is drawn as a mesh. All panels share their axes. A
file that is absent, and a run that diverged, leaves its panel empty and is counted.
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

from flatfed.experiment.panels import FigureSpec
from flatfed.figures.sheets import Sheet, explanation, sheets, why_empty
from flatfed.figures.style import WIDTH, caption, quantity

COLOURS: Colormap = seaborn.color_palette("viridis", as_cmap=True)
MESH = "#1f2328"

#: At most so many lines of a mesh in either direction: the surface below is to be seen between them.
MESH_LINES = 25

#: Light from the upper left, towards the reader.
LIGHT = np.array([-0.45, -0.55, 1.0]) / np.linalg.norm([-0.45, -0.55, 1.0])


def draw(spec: FigureSpec) -> Figure:
    """Return the figure of a specification of kind "surface": in three dimensions, seen from one place."""
    found, limits = sheets(spec)
    across = min(3, len(found))
    down = math.ceil(len(found) / across)
    side, head, foot = WIDTH / max(2, across), 0.2, 0.06
    height = 0.86 * side
    title = 0.42 if spec.scale == "preview" else 0.26
    tall = title + down * (height + head) + foot
    figure = plt.figure(figsize=(WIDTH, tall))
    first = next((sheet for panel in found for sheet in panel if sheet), None)
    for place, panel in enumerate(found):
        row, column = divmod(place, across)
        bottom = 1 - (title + (row + 1) * (height + head)) / tall
        margin = (WIDTH - min(across, len(found) - row * across) * side) / 2
        left, wide = (margin + column * side) / WIDTH, side / WIDTH
        axis = figure.add_axes((left, bottom, 0.95 * wide, height / tall), projection="3d")
        middle, above = left + wide / 2, bottom + height / tall
        figure.text(middle, above - 0.01 / tall, spec.panels[place].title, ha="center", fontsize=9)
        if len(panel) > 1:
            labels = [entry.label for entry in spec.panels[place].marks]
            said = f"surface: {labels[0]}, mesh: {labels[1]}"
            figure.text(middle, above - 0.15 / tall, said, ha="center", fontsize=7, color="#555555")
        _frame(axis, spec, limits, first)
        if why_empty(panel):
            axis.text2D(0.5, 0.5, why_empty(panel), transform=axis.transAxes, ha="center", color="#777777", fontsize=8)
            continue
        # One collection for both: the library sorts the faces of a collection by depth, never two of them.
        parts = [_faces(panel[0], limits), *(_mesh(sheet) for sheet in panel[1:])]
        corners, faces, edges = (np.concatenate(values) for values in zip(*parts, strict=True))
        axis.add_collection3d(Poly3DCollection(corners, facecolors=faces, edgecolors=edges, linewidths=0.35))
    caption(figure, spec, explanation(found))
    return figure


def _frame(axis: Any, spec: FigureSpec, limits: tuple[float, float], first: Sheet | None) -> None:
    """Set what all three-dimensional panels share."""
    axis.view_init(elev=25, azim=-58)
    axis.set_box_aspect((1, 1, 0.75), zoom=1.0)
    axis.set_zlim(*limits)
    if first:
        axis.set(xlim=first.x[[0, -1]], ylim=first.y[[0, -1]])
        axis.set_xticks(*_ticks(first.x))
        axis.set_yticks(*_ticks(first.y))
    axis.set_xlabel("$x$", labelpad=-8)
    axis.set_ylabel("$y$", labelpad=-8)
    axis.set_zlabel(quantity(spec, (spec.metric or "loss")).label, labelpad=-6)
    # None in the corner, where the other axis has its last number.
    lowest = limits[0] + 0.06 * (limits[1] - limits[0])
    heights = [tick for tick in plt.MaxNLocator(5).tick_values(*limits) if lowest <= tick <= limits[1]]
    axis.set_zticks(heights, [f"{tick:.6g}" for tick in heights])
    plt.setp(axis.get_xticklabels(), ha="right")
    plt.setp([*axis.get_yticklabels(), *axis.get_zticklabels()], ha="left")
    for each in (axis.xaxis, axis.yaxis, axis.zaxis):
        each.set_pane_color((1, 1, 1, 0))
        each._axinfo["grid"].update(color="#e3e3e3", linewidth=0.5)
        each.set_tick_params(pad=-6 if each is axis.zaxis else -4, labelsize=6)


def _ticks(along: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return three ticks over a direction's coordinates, its ends and the model, and their labels."""
    places = np.linspace(along[0], along[-1], 3)
    return places, [f"{place:g}" for place in places]


def _quads(sheet: Sheet, step: int) -> np.ndarray:
    """Return the corners (faces, 4, 3) of the grid's cells, every ``step`` points.

    Cells with a NaN are left out.
    """
    keep = np.unique([*range(0, len(sheet.x), step), len(sheet.x) - 1])
    x, y = np.meshgrid(sheet.x[keep], sheet.y[keep], indexing="ij")
    points = np.stack([x, y, sheet.z[np.ix_(keep, keep)]], axis=-1)
    cells = np.stack([points[:-1, :-1], points[1:, :-1], points[1:, 1:], points[:-1, 1:]], axis=2).reshape(-1, 4, 3)
    return cells[np.isfinite(cells).all(axis=(1, 2))]


def _faces(sheet: Sheet, limits: tuple[float, float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return corners, face and edge colours of a filled surface, coloured by height and lit from the side."""
    corners = _quads(sheet, 1)
    # By the square root of the height: most of a bowl's faces are near its floor.
    colours = COLOURS(PowerNorm(0.5, *limits)(corners[:, :, 2].mean(axis=1)))
    spread = np.array([np.ptp(sheet.x), np.ptp(sheet.y), max(limits[1] - limits[0], 1e-12)])
    normal = np.cross((corners[:, 2] - corners[:, 0]) / spread, (corners[:, 3] - corners[:, 1]) / spread)
    lit = np.abs(normal @ LIGHT) / np.maximum(np.linalg.norm(normal, axis=1), 1e-12)
    colours[:, :3] *= (0.72 + 0.28 * lit)[:, None]
    return corners, colours, colours


def _mesh(sheet: Sheet) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return corners, (transparent) face and edge colours of a mesh."""
    corners = _quads(sheet, max(1, math.ceil((len(sheet.x) - 1) / MESH_LINES)))
    edges = np.tile(to_rgba(MESH, 0.85), (len(corners), 1))
    return corners, np.zeros_like(edges), edges
