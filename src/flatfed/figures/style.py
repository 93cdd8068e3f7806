"""What the figures share: type sizes for a printed page, and the lines that say what was really run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import seaborn
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import TextToPath
from matplotlib.transforms import Bbox

from flatfed.errors import DataError, unknown
from flatfed.experiment.panels import FigureSpec
from flatfed.figures.palette import rank
from flatfed.papers.figure_kinds import KINDS, Quantity

#: Pixels an inch of a PNG, for which figures are laid out: letters are drawn on whole pixels, and so wider on fewer.
DPI = 200

#: matplotlib settings: type of 7 to 9 points at the printed width, fonts embedded as outlines that journals
#: accept.
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

#: How a deviation stands on a mark or a bar: settings of ``Axes.errorbar``.
WHISKER = {"color": "#222222", "elinewidth": 0.8, "capsize": 2}

#: Width of a figure across two columns of a conference page, and the white around it, inches.
WIDTH, MARGIN = 7.0, 0.06

#: Letters of the title and of the foot.
TITLE = FontProperties(family=STYLE["font.family"], size=10, weight="bold")
FOOT = FontProperties(family=STYLE["font.family"], size=6.5)


def quantity(spec: FigureSpec, metric: str) -> Quantity:
    """Return the quantity that a figure's ``metric`` names; DataError for one that its kind cannot show."""
    known = KINDS[spec.kind].quantities
    if metric not in known:
        raise DataError(unknown("metric", metric, known, f"figure {spec.figure}"))
    return known[metric]


def subplots(count: int, across: int, height: float, rest: float = 0.6, **options: Any) -> tuple[Figure, list[Axes]]:
    """Return a new figure and the axes of its ``count`` panels in reading order, ``across`` of them side by side.

    ``height`` of a row of panels, and of the ``rest`` of the figure, inches; ``options`` of ``pyplot.subplots``.
    """
    down = math.ceil(count / across)
    figure, axes = pyplot.subplots(
        down, across, figsize=(WIDTH, height * down + rest), squeeze=False, layout="constrained", **options
    )
    for axis in axes.flat[count:]:
        axis.set_visible(False)
    return figure, list(axes.flat[:count])


def gridded(count: int, across: int, height: float) -> tuple[Figure, list[Axes]]:
    """Return the same as :func:`subplots`, of panels with grid lines."""
    with seaborn.axes_style("whitegrid", {"grid.color": "#e6e6e6", "axes.edgecolor": "#444444"}):
        return subplots(count, across, height)


def seeds(numbers: Iterable[int], spread: str = "") -> str:
    """Say of how many seeds marks are, in words such as "mean over seeds (n = 2 or 3)", ``spread`` after "seeds"."""
    several = sorted({number for number in numbers if number})
    mean = f"mean over seeds{spread}" if max(several, default=0) > 1 else "one seed"
    return mean + (f" (n = {' or '.join(map(str, several))})" if several else "")


def counted(numbers: dict[str, int]) -> str:
    """Return a sentence such as " 2 runs are missing." for every {words: number} above 0."""
    return "".join(f" {number} {words}." for words, number in numbers.items() if number)


def caption(figure: Figure, spec: FigureSpec, explanation: str) -> None:
    """Put the title above ``figure``, and below it the foot.

    The foot has a paragraph each for paper and caption; for setting and tuning; for the ``explanation`` of what is
    drawn; for what the paper leaves open. A figure of preview scale says so before its title, like the tables.
    """
    scale = "Preview scale, not the paper's data: " if spec.scale == "preview" else ""
    figure.suptitle(wrapped(scale + spec.title, TITLE), fontproperties=TITLE, x=0.005, ha="left")
    paragraphs = (
        [f"Paper: {spec.paper}" if spec.paper else "", spec.caption],
        [f"Here: {spec.setting}" if spec.setting else "", *spec.tuning],
        [explanation],
        [f"Not stated by the paper: {'; '.join(spec.unstated)}"] if spec.unstated else [],
    )
    lines = [" ".join(text.rstrip(".") + "." for text in texts if text) for texts in paragraphs]
    foot = "\n".join(wrapped(line, FOOT) for line in lines if line)
    # Below the page's edge: the layout engine has no place for a second line under a legend, and files are
    # cut to what is drawn.
    below = -0.06 / figure.get_figheight()
    figure.text(0.005, below, foot, fontproperties=FOOT, color="#555555", ha="left", va="top", linespacing=1.4)


def wrapped(text: str, font: FontProperties) -> str:
    """Return ``text`` broken into lines as wide as the figure, or a little narrower so that no last word is alone."""
    full = 0.99 * 72 * WIDTH
    words = [(word, TextToPath().get_text_width_height_descent(f"{word} ", font, False)[0]) for word in text.split()]
    tried = [_filled(words, share / 100 * full) for share in range(100, 84, -2)]
    chosen = next((lines for lines in tried if len(lines) == 1 or _width(lines[-1]) > 0.15 * full), tried[0])
    return "\n".join(" ".join(word for word, _ in line) for line in chosen)


def _filled(words: list[tuple[str, float]], room: float) -> list[list[tuple[str, float]]]:
    """Return lines of (word, its width), as few as fit into the width ``room``; a wider word has a line of its own."""
    lines: list[list[tuple[str, float]]] = [[]]
    for word in words:
        if lines[-1] and _width(lines[-1]) + word[1] > room:
            lines.append([])
        lines[-1].append(word)
    return lines


def _width(line: list[tuple[str, float]]) -> float:
    return sum(width for _, width in line)


def widths(drawn: dict[Any, dict[str, Any]]) -> str:
    """Say why the lines of ``palette.strokes`` differ in width, where they do."""
    several = len({stroke["linewidth"] for stroke in drawn.values()}) > 1
    return " Widths differ so that lines that coincide show." if several else ""


def frame(figure: Figure) -> Bbox:
    """Return the part of ``figure`` that a file shows, inches: all that is drawn, and at least the printed width.

    Letters are of one size in all files, since all are as wide.
    """
    figure.draw_without_rendering()  # lays out
    drawn = figure.get_tightbbox()
    return Bbox.from_extents(min(drawn.x0, 0), drawn.y0, max(drawn.x1, WIDTH), drawn.y1).padded(MARGIN)


def columns(panels: int) -> int:
    """Return how many panels stand side by side: three where they fill their rows, as in the papers, else two."""
    return 3 if panels % 3 == 0 else min(panels, 2)


def sample(look: dict[str, Any], **mark: Any) -> Line2D:
    """Return a line for a legend that looks as ``palette.strokes`` says, its dash pattern from the beginning."""
    style = look["linestyle"]
    return Line2D([], [], **{**look, "linestyle": style if isinstance(style, str) else (0, style[1])}, **mark)


def legend(figure: Figure, entries: dict[str, Any], drawn: Iterable[Any] = ()) -> None:
    """Put the legend of the whole figure under its panels, in one row of up to six or two rows.

    ``entries``: label -> what is drawn of it. ``drawn``, lines or bars of a specification, have the algorithms by which
    their labels are ordered (:func:`flatfed.figures.palette.rank`); other labels stand with algorithms of no paper.
    """
    algorithms = {each.label: each.algorithm for each in drawn}
    entries = dict(sorted(entries.items(), key=lambda entry: rank(algorithms.get(entry[0], ""))))
    columns = len(entries) if len(entries) <= 6 else math.ceil(len(entries) / 2)
    foot = 0.2 * math.ceil(len(entries) / columns) / figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, foot, 1, 1 - foot), w_pad=0.07)
    # Anchored through transFigure: the figure's own box moves when the file is cut to what is drawn.
    place = {"loc": "lower center", "bbox_to_anchor": (0.5, 0), "bbox_transform": figure.transFigure}
    # Long enough to show a dash pattern beside a mark.
    place["handlelength"] = 2.8 if any(isinstance(entry, Line2D) for entry in entries.values()) else 2.0
    figure.legend(entries.values(), entries.keys(), ncols=columns, borderaxespad=0, frameon=False, **place)
