"""Curves of runs at a paper's own setting, with what is printed of them: the rounds at which targets were reached.

Not one of the figures of config/figures: what is drawn are runs, finished or not, of whatever folders are given
(:mod:`flatfed.tables.own_setting`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flatfed.figures import png
from flatfed.figures.palette import rank, style
from flatfed.figures.style import QUANTITIES, STYLE, WIDTH, caption, frame
from flatfed.files import write_whole
from flatfed.tables.own_setting import Outcome, Trained

FOOTNOTE = (
    "Line: the accuracy that targets are of, as it was evaluated, unsmoothed, one line a run; pale where the same row "
    "has a line in float32. Open circle: the printed round; filled: ours, where a run's line first touches the target. "
    "Rounds printed beyond the frame stand beside it."
)


@dataclass(frozen=True)
class Panel:
    """A setting: its title, its runs with their labels, and the outcomes that count rounds to a target."""

    title: str
    runs: list[tuple[str, Trained]]
    targets: list[Outcome]


def draw(panels: list[Panel]) -> Figure:
    """Return the figure: a panel a setting."""
    across = min(2, len(panels))
    down = math.ceil(len(panels) / across)
    figure, axes = pyplot.subplots(
        *(down, across), figsize=(WIDTH, 3.4 * down + 0.4), squeeze=False, layout="constrained"
    )
    for axis, panel in zip(axes.flat, panels, strict=False):
        _panel(axis, panel)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    caption(figure, {"title": "The papers' own setting, run for real", "scale": "paper"}, FOOTNOTE)
    return figure


def _panel(axis: Any, panel: Panel) -> None:
    last = max(1, *(run.rounds for _, run in panel.runs))
    twice = {run.ids[2] for _, run in panel.runs if run.precision == "float32"}
    for label, run in sorted(panel.runs, key=lambda pair: (rank(pair[1].ids[2]), pair[0])):
        colour, dashes = style(run.ids[2])
        pale = run.precision != "float32" and run.ids[2] in twice
        known = label in axis.get_legend_handles_labels()[1]
        look = {"color": colour, "linestyle": dashes, "linewidth": 1.1, "alpha": 0.45 if pale else 1.0}
        accuracies = [100 * value for value in run.history[run.accuracy]]
        axis.plot(run.history["round"], accuracies, label="_" if known else label, **look)
    for target in sorted({one.cell.target for one in panel.targets}):
        these = [one for one in panel.targets if one.cell.target == target]
        axis.axhline(100 * target, color="#888888", linewidth=0.6, linestyle=(0, (2, 2)), zorder=0)
        for one in these:
            for low, high in one.each:
                if low == high != math.inf:
                    _circle(axis, low, target, one, filled=True)
        printed = {one.cell.row: one for one in these if one.cell.paper_value is not None}
        beyond = sorted((one for one in printed.values() if one.cell.paper_value > last), key=_printed)
        for one in printed.values():
            if one.cell.paper_value <= last:
                _circle(axis, one.cell.paper_value, target, one, filled=False)
        for place, one in enumerate(beyond):
            text = {"textcoords": "offset points", "fontsize": 6.5, "va": "center", "annotation_clip": False}
            where = (4, 8 * ((len(beyond) - 1) / 2 - place))
            colour = style(one.cell.row)[0]
            axis.annotate(f"\u25b8 {_printed(one):g}", (1.02 * last, 100 * target), where, color=colour, **text)
    axis.set_xlim(0, 1.02 * last)
    axis.set_title(panel.title)
    axis.set_xlabel("Communication round")
    names = dict.fromkeys(QUANTITIES[run.accuracy][0] for _, run in panel.runs)
    axis.set_ylabel(" / ".join(names))
    handles, labels = axis.get_legend_handles_labels()
    marks = [
        Line2D([], [], marker="o", linestyle="", markerfacecolor=face, color="#444444", markersize=4.5)
        for face in ("white", "#444444")
    ]
    axis.legend([*handles, *marks], [*labels, "printed", "ours"], frameon=False, loc="lower right")


def _printed(one: Outcome) -> float:
    return one.cell.paper_value


def _circle(axis: Any, round_: float, target: float, one: Outcome, *, filled: bool) -> None:
    look = {} if filled else {"markerfacecolor": "white"}
    axis.plot(round_, 100 * target, "o", color=style(one.cell.row)[0], markersize=4.5, zorder=3, **look)


def make(panels: list[Panel], path: Path, page: str) -> None:
    """Draw ``panels`` into the PNG ``path``, whole: the same runs give the same bytes.

    ``page``: the digest of the page that the picture stands on, kept in it so that it can be told when it is older.
    """
    with pyplot.rc_context(STYLE):
        figure = draw(panels)
        try:
            with write_whole(path) as file:
                figure.savefig(file, format="png", bbox_inches=frame(figure), **png(page))
        finally:
            pyplot.close(figure)
