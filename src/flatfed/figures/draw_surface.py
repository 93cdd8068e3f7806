"""Loss surfaces in three dimensions: the first model of a panel as a surface, a second one as a mesh.

As in FedSAM, Figure 2, FedLESAM, Figures 1, 3, 6, FedSMOO, Figure 3, and DFedSAM, Figure 2. Panels share their axes.
Contours lie on the floor: coloured as the surface, and dark for the mesh.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import seaborn
from matplotlib import pyplot
from matplotlib.colors import Colormap, LightSource, PowerNorm, to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from mpl_toolkits.mplot3d.axes3d import Axes3D

from flatfed.figures import captions, frames, palette, style
from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import KINDS, Mark, Panel
from flatfed.runs.landscape_file import Landscape, read

COLOURS: Colormap = seaborn.color_palette("viridis", as_cmap=True)
MESH = "#1f2328"

#: The most lines of a mesh in a direction: the surface below stays visible.
MESH_LINES = 25

#: Contours of a surface, and the room below it for them as a share of its height.
CONTOURS, FLOOR = 8, 0.45

#: Height of a panel as a share of its width, and at most, in inches.
SHAPE, TALLEST = 0.78, 4


@dataclass(frozen=True)
class LossSurface(Landscape):
    """A surface ``z`` (n, n) in printed units at ``x[i], y[j]``, NaN if not finite."""

    z: np.ndarray

    @property
    def diverged(self) -> bool:
        """Whether its run diverged."""
        return self.about.models[0].diverged_at is not None


def draw(spec: ShownFigure) -> tuple[Figure, list[str]]:
    """Return a figure of kind "surface" and its explanation.

    :raises DataError: a file is damaged, or of another model or analysis.
    :raises NoData: no panel has all of its surfaces.
    """
    surfaces = [[_surface(panel, mark) for mark in panel.marks] for panel in spec.panels]
    complete = [all(surface and not surface.diverged for surface in of_panel) for of_panel in surfaces]
    panels, absent = frames.with_data(spec, np.flatnonzero(complete))
    values = [z for index in panels for surface in surfaces[index] for z in surface.z.flat if np.isfinite(z)]
    low, high = min(values, default=0.0), max(values, default=1.0)
    limits = low, high if high > low else low + 1.0
    # By the square root of the height: most faces of a bowl are near its floor.
    norm = PowerNorm(0.5, *limits)
    figure, axes = style.panels(spec, [panel.title for panel in panels.values()], subplot_kw={"projection": "3d"})
    figure.set_layout_engine(None)  # matplotlib's layouts do not see the labels of three axes
    grid = axes[0].get_gridspec()
    height = min(TALLEST, SHAPE * spec.width / grid.ncols)
    titles = 0.2 + style.ROW * max(axis.get_title().count("\n") + 1 for axis in axes)
    figure.set_figheight(grid.nrows * (height + titles) + 0.1)
    edges = {"right": 1 - 0.3 / spec.width, "top": 1 - titles / figure.get_figheight()}
    figure.subplots_adjust(left=0, bottom=0.1 / figure.get_figheight(), wspace=0.15, hspace=titles / height, **edges)
    for (index, panel), axis in zip(panels.items(), axes, strict=True):
        if palette.highlighted(spec) & {mark.label for mark in panel.marks}:
            axis.title.set_fontweight("bold")
        if len(panel.marks) > 1:
            text = "surface: {.label}, mesh: {.label}".format(*panel.marks)
            axis.text2D(0.5, 0.99, text, transform=axis.transAxes, ha="center", va="top", fontsize=7)
        _frame(axis, KINDS[spec.kind].quantities[panel.metric].label, limits)
        first, *others = surfaces[index]
        ticks = np.linspace(first.x[0], first.x[-1], 3)  # at the ends and at the model
        axis.set(xticks=ticks, yticks=ticks, xlim=first.x[[0, -1]], ylim=first.y[[0, -1]])
        # One collection for both: matplotlib sorts faces by depth only within a collection.
        quads = _quads(first, 1)
        colours = COLOURS(norm(quads[:, :, 2].mean(axis=1)))
        parts = [(quads, colours, colours), *map(_mesh, others)]
        corners, faces, edges = (np.concatenate(values) for values in zip(*parts, strict=True))
        look = {"facecolors": faces, "edgecolors": edges, "linewidths": 0.35}
        axis.add_collection3d(Poly3DCollection(corners, shade=True, lightsource=LightSource(225, 45), **look))
        looks = {"cmap": COLOURS, "norm": norm}, {"colors": MESH, "linestyles": "dotted"}
        for surface, look in zip(surfaces[index], looks, strict=False):
            levels = np.linspace(*limits, CONTOURS + 2)[1:-1]
            levels = levels[(levels > np.nanmin(surface.z)) & (levels < np.nanmax(surface.z))]
            floor = {"levels": levels, "offset": axis.get_zlim()[0], "zdir": "z", "linewidths": 0.6}
            if len(levels):
                axis.contour(*np.meshgrid(surface.x, surface.y, indexing="ij"), surface.z, **floor, **look)
    seeds = sorted({number.seed for mark in spec.marks for number in mark.numbers})
    return figure, [f"Seed {' or '.join(map(str, seeds))}", *_explanation(surfaces), *absent]


def _frame(axis: Axes3D, label: str, limits: tuple[float, float]) -> None:
    low, high = limits
    axis.view_init(elev=25, azim=-58)
    axis.set_box_aspect((1, 1, 0.85), zoom=1)
    axis.patch.set_visible(False)  # it would cover the label of its neighbour
    axis.set_zlim(low - FLOOR * (high - low), high)
    axis.set_xlabel("$x$", labelpad=-9)
    axis.set_ylabel("$y$", labelpad=-9)
    axis.set_zlabel(label, labelpad=-5)
    axis.set_zticks([tick for tick in MaxNLocator(4).tick_values(low, high) if low <= tick <= high])
    for line, side in ((axis.xaxis, "right"), (axis.yaxis, "left"), (axis.zaxis, "left")):
        line.set_pane_color((1, 1, 1, 0))
        line.set_tick_params(pad=-4, labelsize=6)
        pyplot.setp(line.get_ticklabels(), ha=side)


def _quads(surface: LossSurface, step: int) -> np.ndarray:
    """Return the corners (faces, 4, 3) of the grid's cells, every ``step`` points, without cells with NaN."""
    keep = np.unique([*range(0, len(surface.x), step), len(surface.x) - 1])
    x, y = np.meshgrid(surface.x[keep], surface.y[keep], indexing="ij")
    points = np.stack([x, y, surface.z[np.ix_(keep, keep)]], axis=-1)
    cells = np.stack([points[:-1, :-1], points[1:, :-1], points[1:, 1:], points[:-1, 1:]], axis=2).reshape(-1, 4, 3)
    return cells[np.isfinite(cells).all(axis=(1, 2))]


def _mesh(surface: LossSurface) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return corners, face and edge colours of a surface without faces."""
    corners = _quads(surface, max(1, math.ceil((len(surface.x) - 1) / MESH_LINES)))
    edges = np.tile(to_rgba(MESH, 0.85), (len(corners), 1))
    return corners, np.zeros_like(edges), edges


def _explanation(surfaces: list[list[LossSurface | None]]) -> Iterator[str]:
    """Yield the sentences on axes, images, and missing surfaces."""
    all_surfaces = [surface for panel in surfaces for surface in panel]
    drawn = [surface for surface in all_surfaces if surface and not surface.diverged]
    if drawn:
        seeds = sorted({surface.about.seed for surface in drawn})
        draw = ", the same for all" if len(seeds) == 1 else "; surfaces of different draws do not compare"
        yield (
            f"x, y: steps along two random directions (draw {', '.join(map(str, seeds))}{draw}), orthogonal in every "
            "filter and scaled to each model's own filters; biases and normalisation layers stay fixed"
        )
        kinds = {"train": "of the clients' training images", "test": "test images"}
        images = {(f"{s.about.images:,} {kinds[s.about.set]}", s.about.images_sha256) for s in drawn}
        same = "the same for all" if len(images) == 1 else "different ones, whose losses do not compare"
        yield f"On {' or '.join(sorted({text for text, _ in images}))}{f', {same}' if len(drawn) > 1 else ''}"
    yield from captions.counts({
        "points without a finite value are left out": sum(int(np.isnan(surface.z).sum()) for surface in drawn),
        "surfaces are missing": all_surfaces.count(None),
        "runs diverged and are left out": sum(bool(surface and surface.diverged) for surface in all_surfaces),
    })


def _surface(panel: Panel, mark: Mark) -> LossSurface | None:
    """Return the surface of a mark, None without a file; DataError for that of another model than the mark's run."""
    (file,), (run,) = mark.files, mark.runs
    if not Path(file).is_file():
        return None
    landscape = read(file)
    run.check_analysis(file, landscape.about.models[0])
    z = KINDS["surface"].quantities[panel.metric].factor * getattr(landscape, panel.metric)[0]
    return LossSurface(**vars(landscape), z=np.where(np.isfinite(z), z, np.nan))
