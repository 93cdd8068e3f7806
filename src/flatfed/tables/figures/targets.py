"""Curves of runs at a paper's own setting, with what is printed of them: the rounds at which targets were reached.

Not one of the figures of config/figures: what is drawn are runs, finished or not, of whatever folders are given
(:mod:`flatfed.tables.own_setting`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flatfed.files import write_whole
from flatfed.tables.figures.palette import rank, style
from flatfed.tables.figures.paper import DPI, FOOT, STYLE, TITLE, WIDTH, frame, wrapped
from flatfed.tables.own_setting import Outcome, Trained

FOOTNOTE = (
    "Line: test accuracy after every round, unsmoothed. Circle: the paper's round, open; ours, filled, where the line "
    "first touches the target. What is printed beyond the frame stands at its edge as an arrow."
)


@dataclass(frozen=True)
class Panel:
    """A setting: its title, its runs by label, and the outcomes that count rounds to a target."""

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
        last = max(run.rounds for _, run in panel.runs)
        for label, run in sorted(panel.runs, key=lambda pair: rank(pair[1].description["algorithm"])):
            colour, dashes = style(run.description["algorithm"])
            width = 1.3 if run.precision == "float32" else 1.0
            accuracies = [100 * value for value in run.history["test_accuracy"]]
            axis.plot(run.history["round"], accuracies, color=colour, linestyle=dashes, linewidth=width, label=label)
        for target in sorted({one.target for one in panel.targets}):
            axis.axhline(100 * target, color="#888888", linewidth=0.6, linestyle=(0, (2, 2)), zorder=0)
        for one in panel.targets:
            _marks(axis, one, last)
        axis.set_xlim(0, 1.02 * last)
        axis.set_title(panel.title)
        axis.set_xlabel("Communication round")
        axis.set_ylabel("Test accuracy (%)")
        handles, labels = axis.get_legend_handles_labels()
        printed = Line2D([], [], marker="o", linestyle="", markerfacecolor="white", color="#444444", markersize=4.5)
        ours = Line2D([], [], marker="o", linestyle="", color="#444444", markersize=4.5)
        axis.legend([*handles, printed, ours], [*labels, "printed", "ours"], frameon=False, loc="lower right")
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    figure.suptitle("The papers' own setting, run for real", fontproperties=TITLE, x=0.005, ha="left")
    below = -0.06 / figure.get_figheight()
    foot = {"fontproperties": FOOT, "color": "#555555", "ha": "left", "va": "top", "linespacing": 1.4}
    figure.text(0.005, below, wrapped(FOOTNOTE, FOOT), **foot)
    return figure


def _marks(axis: pyplot.Axes, one: Outcome, last: int) -> None:
    """Put the printed round of a target, and ours, on its line."""
    colour, height = style(one.algorithm)[0], 100 * one.target
    if one.paper is not None and math.isfinite(one.paper):
        inside = one.paper <= last
        look = {"markerfacecolor": "white"} if inside else {}
        axis.plot(min(one.paper, 1.005 * last), height, "o" if inside else ">", color=colour, markersize=4.5, **look)
    if one.known:
        axis.plot(one.bounds[0], height, "o", color=colour, markersize=4.5, zorder=3)


def make(panels: list[Panel], path: Path) -> None:
    """Draw ``panels`` into the PNG ``path``, whole: the same runs give the same bytes."""
    with pyplot.rc_context(STYLE):
        figure = draw(panels)
        try:
            with write_whole(path) as file:
                options: Mapping[str, object] = {"metadata": {"Software": None}, "dpi": DPI}
                figure.savefig(file, format="png", bbox_inches=frame(figure), **options)
        finally:
            pyplot.close(figure)
