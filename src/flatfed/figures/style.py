"""Common style: sizes, notes, legends."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from typing import Any

import seaborn
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox

from flatfed.figures.palette import rank
from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import KINDS, Mark, Quantity

#: Resolution of layout and PNG; fewer pixels make letters wider.
DPI = 200

#: matplotlib settings: type of 7 to 9 points in print, fonts embedded as outlines.
STYLE = {
    "figure.dpi": DPI,
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "legend.fontsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.7,
    "axes.edgecolor": "#444444",
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "pdf.fonttype": 42,
}

#: Options of ``Axes.errorbar``.
WHISKER = {"color": "#222222", "elinewidth": 0.8, "capsize": 2}

#: Width of a figure, two columns of a conference page, and of its margin, inches.
WIDTH, MARGIN = 7.0, 0.06


def quantity(spec: ShownFigure, metric: str) -> Quantity:
    """Return the quantity of a ``metric`` on the axes of a figure."""
    return KINDS[spec.kind].quantities[metric]


def subplots(count: int, across: int, height: float, rest: float = 0.4, **options: Any) -> tuple[Figure, list[Axes]]:
    """Return a figure and the axes of its ``count`` panels, ``across`` per row.

    ``height``: of a row, ``rest``: of the legend, inches; ``options``: of ``pyplot.subplots``.
    """
    down = math.ceil(count / across)
    figure, axes = pyplot.subplots(
        down, across, figsize=(WIDTH, height * down + rest), squeeze=False, layout="constrained", **options
    )
    for axis in axes.flat[count:]:
        axis.set_visible(False)
    return figure, list(axes.flat[:count])


def gridded(count: int, across: int, height: float) -> tuple[Figure, list[Axes]]:
    """Return :func:`subplots` with grid lines."""
    with seaborn.axes_style("whitegrid", {"grid.color": "#e6e6e6", "axes.edgecolor": "#444444"}):
        return subplots(count, across, height)


def seed_text(numbers: Iterable[int], spread: str = "") -> str:
    """Return text such as "mean over seeds (n = 2 or 3)", with ``spread`` after "seeds"."""
    several = sorted({number for number in numbers if number})
    mean = f"mean over seeds{spread}" if max(several, default=0) > 1 else "one seed"
    return mean + (f" (n = {' or '.join(map(str, several))})" if several else "")


def count_text(numbers: dict[str, int]) -> str:
    """Return " 2 runs are missing." for every {words: number} above 0."""
    return "".join(f" {number} {words}." for words, number in numbers.items() if number)


def caption(figure: Figure, spec: ShownFigure, explanation: str) -> None:
    """Label ``figure`` with its title and notes, the text of the file .txt; ``explanation``: of the marks."""
    paragraphs = (
        [f"Paper: {spec.document.paper}" if spec.document.paper else "", spec.caption],
        [f"Here: {spec.setting}" if spec.setting else ""],
        [explanation],
        [f"Not stated by the paper: {'; '.join(spec.unstated)}"] if spec.unstated else [],
    )
    lines = (" ".join(text.rstrip(".") + "." for text in texts if text) for texts in paragraphs)
    figure.set_label("\n".join([spec.title, "", *(textwrap.fill(line, 120) for line in lines if line), ""]))


def width_text(drawn: dict[Any, dict[str, Any]]) -> str:
    """Return a sentence if the lines of ``palette.strokes`` differ in width."""
    several = len({stroke["linewidth"] for stroke in drawn.values()}) > 1
    return " Widths differ to show coinciding lines." if several else ""


def frame(figure: Figure) -> Bbox:
    """Return the part of ``figure`` that a file shows, inches: all artists, and at least the printed width."""
    figure.draw_without_rendering()  # lays out
    drawn = figure.get_tightbbox()
    return Bbox.from_extents(min(drawn.x0, 0), drawn.y0, max(drawn.x1, WIDTH), drawn.y1).padded(MARGIN)


def columns(panels: int) -> int:
    """Return the number of panels per row: three if they fill all rows, else two."""
    return 3 if panels % 3 == 0 else min(panels, 2)


def legend_line(look: dict[str, Any], **mark: Any) -> Line2D:
    """Return a legend's line of a look of ``palette.strokes``, without its dash offset."""
    style = look["linestyle"]
    return Line2D([], [], **{**look, "linestyle": style if isinstance(style, str) else (0, style[1])}, **mark)


def legend(figure: Figure, entries: dict[str, Any], marks: Iterable[Mark] = ()) -> None:
    """Draw the legend under the panels, in one row of up to six entries, or two rows.

    ``entries``: label -> artist. ``marks``: their algorithms order the labels (:func:`flatfed.figures.palette.rank`).
    """
    algorithms = {mark.label: mark.algorithm for mark in marks}
    entries = dict(sorted(entries.items(), key=lambda entry: rank(algorithms.get(entry[0], ""))))
    columns = len(entries) if len(entries) <= 6 else math.ceil(len(entries) / 2)
    foot = 0.2 * math.ceil(len(entries) / columns) / figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, foot, 1, 1 - foot), w_pad=0.07)
    # Anchored through transFigure: the figure's box moves when the file is cut.
    anchor = {"loc": "lower center", "bbox_to_anchor": (0.5, 0), "bbox_transform": figure.transFigure}
    # A dash pattern next to a mark needs length.
    anchor["handlelength"] = 2.8 if any(isinstance(entry, Line2D) for entry in entries.values()) else 2.0
    figure.legend(entries.values(), entries.keys(), ncols=columns, borderaxespad=0, frameon=False, **anchor)
