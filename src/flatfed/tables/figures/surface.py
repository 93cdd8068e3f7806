"""Loss surfaces in three dimensions, one model in a panel or two in one frame.

As in FedSAM, Figure 2 and FedLESAM, Figures 1, 3, 6 (one model a panel) and in FedSMOO, Figure 3 and DFedSAM, Figure 2
(one model as a surface, the other as a mesh). Specification, beside the keys that every figure has::

    {"kind": "surface" | "contour", "metric": "loss" | "accuracy",   # absent: loss
     "top": 4.0,                                                      # cut what is higher; absent: nothing is cut
     "panels": [{"title": "FedSMOO over FedAvg",
                 "surfaces": [{"label": "FedAvg", "surface": "results/.../surface.npz", "model": 0},
                              {"label": "FedSMOO", "surface": "results/.../surface.npz", "model": 1}]}]}

``surface`` is a file of ``flatfed surface`` (its form: ``flatfed.analysis.landscape_file``), ``model`` the place of the
model in it, 0 where absent. The first surface of a panel is filled, a second is drawn as a mesh; a contour
(``flatfed.tables.figures.contour``) takes one. All panels share their axes. A file that is absent, and a run that
diverged, leaves its panel empty and is counted.
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

from flatfed.analysis.landscape_file import Landscape, read
from flatfed.errors import DataError, unknown
from flatfed.tables.figures.paper import WIDTH, caption

#: Metric -> (axis label with unit, printed units in one stored unit).
METRICS = {"loss": ("Loss (nats)", 1.0), "accuracy": ("Accuracy (%)", 100.0)}

COLOURS: Colormap = seaborn.color_palette("viridis", as_cmap=True)
MESH = "#1f2328"

#: Stands in the panel of a file that is not there.
NOT_MADE = "not made"

#: At most so many lines of a mesh in either direction: the surface below is to be seen between them.
MESH_LINES = 25

#: Light from the upper left, towards the reader.
LIGHT = np.array([-0.45, -0.55, 1.0]) / np.linalg.norm([-0.45, -0.55, 1.0])


@dataclass(frozen=True)
class Sheet:
    """One surface to draw: ``z`` (n, n) in printed units at ``x[i], y[j]``, NaN where it is not finite.

    ``model`` is its place in its file, of which ``about`` tells. ``diverged``: whose run diverged, so that there is no
    finite z, and in which round; "" of most.
    """

    label: str
    model: int
    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    about: dict[str, Any]
    diverged: str = ""


def why_empty(panel: list[Sheet | None]) -> str:
    """Return the words that stand in a panel in place of its surfaces, "" where they can be drawn."""
    if None in panel:
        return NOT_MADE
    return "\n".join(dict.fromkeys(sheet.diverged for sheet in panel if sheet.diverged))


def diverged(about: dict[str, Any], model: int) -> str:
    """Say whose run diverged, so that a file holds no values of ``model``: its own, or that which lends the scale."""
    for place in (model, 0):
        when = about["models"][place].get("diverged_at")
        if when is not None:
            return f"{about['models'][place]['algorithm']} diverged in round {when}"
    return ""


def sheets(spec: dict[str, Any]) -> tuple[list[list[Sheet | None]], tuple[float, float]]:
    """Return every panel's surfaces, None for those that are not made, and the common limits of z, ``top`` minded.

    :raises DataError: the metric is unknown, a file is damaged, no surface, or has no such model, a panel has more
        surfaces than it can show, or nothing is below ``top``.
    """
    factor = quantity(spec)[1]
    most = 1 if spec["kind"] == "contour" else 2
    found = []
    for panel in spec["panels"]:
        if not 1 <= len(panel["surfaces"]) <= most:
            shown = "one surface" if most == 1 else "one or two surfaces"
            raise DataError(
                f"figure {spec['figure']}: {panel['title']}: {len(panel['surfaces'])} surfaces, not {shown}"
            )
        found.append([_sheet(entry, spec.get("metric", "loss"), factor) for entry in panel["surfaces"]])
    values = [sheet.z[np.isfinite(sheet.z)] for panel in found for sheet in panel if sheet]
    values = np.concatenate(values) if values else np.zeros(0)
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    top = factor * spec.get("top", math.inf)
    if top <= low:
        raise DataError(
            f"figure {spec['figure']}: top: {spec['top']} cuts everything, the lowest being {low / factor:g}"
        )
    return found, (low, min(high if high > low else low + 1.0, top))


def draw(spec: dict[str, Any]) -> Figure:
    """Return the figure of a specification of kind "surface": in three dimensions, seen from one place."""
    found, limits = sheets(spec)
    across = min(3, len(found))
    down = math.ceil(len(found) / across)
    side, head, foot = WIDTH / max(2, across), 0.2, 0.06
    height = 0.86 * side
    title = 0.42 if spec["scale"] == "preview" else 0.26
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
        figure.text(middle, above - 0.01 / tall, spec["panels"][place]["title"], ha="center", fontsize=9)
        if len(panel) > 1:
            labels = [entry["label"] for entry in spec["panels"][place]["surfaces"]]
            said = f"surface: {labels[0]}, mesh: {labels[1]}"
            figure.text(middle, above - 0.15 / tall, said, ha="center", fontsize=7, color="#555555")
        _frame(axis, spec, limits, first)
        if why_empty(panel):
            axis.text2D(0.5, 0.5, why_empty(panel), transform=axis.transAxes, ha="center", color="#777777", fontsize=8)
            continue
        # One collection for both: the library sorts the faces of a collection by depth, never two of them.
        parts = [_faces(panel[0], limits), *(_mesh(sheet, limits) for sheet in panel[1:])]
        corners, faces, edges = (np.concatenate(values) for values in zip(*parts, strict=True))
        axis.add_collection3d(Poly3DCollection(corners, facecolors=faces, edgecolors=edges, linewidths=0.35))
    caption(figure, spec, reading(spec, found, limits))
    return figure


def reading(spec: dict[str, Any], found: list[list[Sheet | None]], limits: tuple[float, float]) -> str:
    """Say what the axes are, whose filters they are scaled to, on which images, what is cut and what is not there."""
    there = [sheet for panel in found for sheet in panel if sheet and not sheet.diverged]
    absent = sum(sheet is None for panel in found for sheet in panel)
    said = []
    if there:
        seeds = ", ".join(str(seed) for seed in sorted({sheet.about["seed"] for sheet in there}))
        said.append(
            f"x, y: steps along two random directions (draw {seeds}), orthogonal in every filter and scaled to "
            f"{' or '.join(sorted({_whose(sheet, there) for sheet in there}))}; biases and normalisation layers stay."
        )
        said.append(images([sheet.about for sheet in there]))
    wild = sum(int((~np.isfinite(sheet.z)).sum()) for sheet in there)
    if wild:
        said.append(f"{wild} points without a finite value are left out.")
    if any(np.nanmax(sheet.z, initial=-math.inf) > limits[1] for sheet in there):
        said.append(f"Cut at {limits[1]:.3g}.")
    if absent:
        said.append(f"Missing surfaces: {absent}.")
    gone = dict.fromkeys(sheet.diverged for panel in found for sheet in panel if sheet and sheet.diverged)
    said += [f"Without a surface: {', '.join(gone)}."] if gone else []
    return " ".join(said)


def _whose(sheet: Sheet, there: list[Sheet]) -> str:
    """Say whose filters the directions of a surface are scaled to: its own, or those of the first in its file."""
    models = sheet.about["models"]
    if len(models) == 1:
        return "the model's own filters"
    labels = [one.label for one in there if one.about == sheet.about and one.model == 0]
    return f"the filters of {labels[0] if labels else models[0]['name']}, each model around itself"


def images(abouts: list[dict[str, Any]]) -> str:
    """Say on which images values were computed."""
    kinds = {f"{about['images']:,} {'training' if about['set'] == 'train' else 'test'} images" for about in abouts}
    return f"On {' or '.join(sorted(kinds))}." if kinds else ""


def quantity(spec: dict[str, Any]) -> tuple[str, float]:
    """Return the label of the axis and printed units in a stored one; DataError for an unknown metric."""
    metric = spec.get("metric", "loss")
    if metric not in METRICS:
        raise DataError(unknown("metric", metric, METRICS, f"figure {spec['figure']}"))
    return METRICS[metric]


def landscape(path: str, kind: str) -> Landscape | None:
    """Return a landscape, None where there is no file; DataError for one that is of another kind."""
    if not Path(path).is_file():
        return None
    found = read(path)
    if found.kind != kind:
        raise DataError(f"{path}: is a {found.kind}, but a {kind} is wanted")
    return found


def _sheet(entry: dict[str, Any], metric: str, factor: float) -> Sheet | None:
    found, model = landscape(entry["surface"], "surface"), entry.get("model", 0)
    if found is None:
        return None
    if not 0 <= model < len(found.loss):
        raise DataError(f"{entry['surface']}: no model {model}: it holds {len(found.loss)}, counted from 0")
    z = factor * getattr(found, metric)[model]
    finite = np.where(np.isfinite(z), z, np.nan)
    return Sheet(entry["label"], model, found.x, found.y, finite, found.about, diverged(found.about, model))


def _frame(axis: Any, spec: dict[str, Any], limits: tuple[float, float], first: Sheet | None) -> None:
    """Set what all three-dimensional panels share."""
    axis.view_init(elev=25, azim=-58)
    axis.set_box_aspect((1, 1, 0.75), zoom=1.0)
    axis.set_zlim(*limits)
    if first:
        for set_ticks, set_limits, along in (
            (axis.set_xticks, axis.set_xlim, first.x),
            (axis.set_yticks, axis.set_ylim, first.y),
        ):
            set_limits(along[0], along[-1])
            set_ticks(ticks(along)[::2], [f"{tick:g}" for tick in ticks(along)[::2]])
    axis.set_xlabel("$x$", labelpad=-8)
    axis.set_ylabel("$y$", labelpad=-8)
    axis.set_zlabel(quantity(spec)[0], labelpad=-6)
    # None in the corner, where the other axis has its last number.
    lowest = limits[0] + 0.06 * (limits[1] - limits[0])
    heights = [tick for tick in plt.MaxNLocator(5).tick_values(*limits) if lowest <= tick <= limits[1]]
    axis.set_zticks(heights, [f"{tick:.6g}" for tick in heights])
    for labels, side in (
        (axis.get_xticklabels(), "right"),
        (axis.get_yticklabels(), "left"),
        (axis.get_zticklabels(), "left"),
    ):
        for label in labels:
            label.set_horizontalalignment(side)
    for one in (axis.xaxis, axis.yaxis, axis.zaxis):
        one.set_pane_color((1, 1, 1, 0))
        one._axinfo["grid"].update(color="#e3e3e3", linewidth=0.5)
        one.set_tick_params(pad=-6 if one is axis.zaxis else -4, labelsize=6)


def ticks(along: np.ndarray) -> np.ndarray:
    """Return five ticks over a direction's coordinates: its ends, the model, and half the way."""
    return np.linspace(along[0], along[-1], 5)


def _quads(sheet: Sheet, limits: tuple[float, float], step: int) -> np.ndarray:
    """Return the corners (faces, 4, 3) of the grid's cells, every ``step`` points.

    Cells with a NaN are left out, and those that lie wholly at the upper limit or above it.
    """
    keep = np.unique([*range(0, len(sheet.x), step), len(sheet.x) - 1])
    x, y = np.meshgrid(sheet.x[keep], sheet.y[keep], indexing="ij")
    points = np.stack([x, y, np.minimum(sheet.z[np.ix_(keep, keep)], limits[1])], axis=-1)
    cells = np.stack([points[:-1, :-1], points[1:, :-1], points[1:, 1:], points[:-1, 1:]], axis=2).reshape(-1, 4, 3)
    shown = np.isfinite(cells).all(axis=(1, 2)) & (cells[:, :, 2].min(axis=1) < limits[1])
    return cells[shown]


def _faces(sheet: Sheet, limits: tuple[float, float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return corners, face and edge colours of a filled surface, coloured by height and lit from the side."""
    corners = _quads(sheet, limits, 1)
    # By the square root of the height: most of a bowl's faces are near its floor.
    colours = COLOURS(PowerNorm(0.5, *limits)(corners[:, :, 2].mean(axis=1)))
    spread = np.array([np.ptp(sheet.x), np.ptp(sheet.y), max(limits[1] - limits[0], 1e-12)])
    normal = np.cross((corners[:, 2] - corners[:, 0]) / spread, (corners[:, 3] - corners[:, 1]) / spread)
    lit = np.abs(normal @ LIGHT) / np.maximum(np.linalg.norm(normal, axis=1), 1e-12)
    colours[:, :3] *= (0.72 + 0.28 * lit)[:, None]
    return corners, colours, colours


def _mesh(sheet: Sheet, limits: tuple[float, float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return corners, (transparent) face and edge colours of a mesh."""
    corners = _quads(sheet, limits, max(1, math.ceil((len(sheet.x) - 1) / MESH_LINES)))
    edges = np.tile(to_rgba(MESH, 0.85), (len(corners), 1))
    return corners, np.zeros_like(edges), edges
