"""Curves of runs at a paper's own setting, with what is printed of them: the rounds at which targets were reached.

Not one of the figures of config/figures: what is drawn are runs, finished or not, of whatever folders are given
(:mod:`flatfed.tables.own_setting`).
"""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from flatfed.figures import save
from flatfed.figures.palette import rank, style
from flatfed.figures.style import caption, subplots
from flatfed.papers.figure_kinds import COLUMNS
from flatfed.papers.units import many
from flatfed.specs.figure import FigureSpec
from flatfed.tables.own_setting import Outcome, Trained

FOOTNOTE = (
    "Line: the accuracy that targets are of, as it was evaluated, unsmoothed, one line a run; pale where the same row "
    "has a line in float32. Open circle: the printed round; filled: ours, where a run's line first touches the target. "
    "Rounds printed beyond the frame stand beside it. Upright: a round that draws far fewer clients than others, for "
    "all rows alike."
)


#: The figure as its frame and title know it.
ABOUT = FigureSpec(
    figure="results", kind="curves", scale="paper", title="The papers' own setting, run for real", panels=[]
)


#: What a figure with such a part says besides.
GREY = " Grey: rounds that one run alone has, on a shorter scale."

#: A run that is so many times as long as every other is drawn on a shorter scale where it is alone.
ALONE = 1.5
#: What that part takes of the width, in parts of the rest.
PART = 0.35


@dataclass(frozen=True)
class Panel:
    """A setting: its title, its runs with their labels, and the outcomes that count rounds to a target."""

    title: str
    runs: list[tuple[str, Trained]]
    targets: list[Outcome]


def draw(panels: list[Panel]) -> Figure:
    """Return the figure: a panel a setting."""
    figure, axes = subplots(len(panels), min(2, len(panels)), 3.4, 0.4)
    shortened = [_panel(axis, panel) for axis, panel in zip(axes, panels, strict=True)]
    caption(figure, ABOUT, FOOTNOTE + (GREY if any(shortened) else ""))
    return figure


def _panel(axis: Any, panel: Panel) -> bool:
    """Draw a panel; return whether a part of it is on a shorter scale."""
    last = max(1, *(run.rounds for _, run in panel.runs))
    twice = {run.ids.algorithm for _, run in panel.runs if run.precision == "float32"}
    for label, run in sorted(panel.runs, key=lambda pair: (rank(pair[1].ids.algorithm), pair[0])):
        colour, dashes = style(run.ids.algorithm)
        pale = run.precision != "float32" and run.ids.algorithm in twice
        known = label in axis.get_legend_handles_labels()[1]
        look = {"color": colour, "linestyle": dashes, "linewidth": 1.1, "alpha": 0.45 if pale else 1.0}
        accuracies = [100 * value for value in run.history[run.accuracy]]
        axis.plot(run.history["round"], accuracies, label="_" if known else label, **look)
    levels = sorted({outcome.cell.target for outcome in panel.targets})
    there: Counter[tuple[float, float]] = Counter()
    for target in levels:
        outcomes = [outcome for outcome in panel.targets if outcome.cell.target == target]
        axis.axhline(100 * target, color="#888888", linewidth=0.6, linestyle=(0, (2, 2)), zorder=0)
        for outcome in outcomes:
            for bounds in outcome.each:
                if bounds.number is not None:
                    _circle(axis, outcome.cell.row, bounds.number, target, there, filled=True)
        rounds = {outcome.cell.row: outcome.cell.paper_value for outcome in outcomes}
        printed = {row: round_ for row, round_ in rounds.items() if round_ is not None}
        for row, round_ in printed.items():
            if round_ <= last:
                _circle(axis, row, round_, target, there, filled=False)
        beyond = sorted((round_, row) for row, round_ in printed.items() if round_ > last)
        for place, (round_, row) in enumerate(beyond):
            text = {"textcoords": "offset points", "fontsize": 6.5, "va": "center", "annotation_clip": False}
            where = (4, 8 * place if target == levels[-1] else -8 * place)  # away from what stands at another target
            colour = style(row)[0]
            axis.annotate(f"\u25b8 {round_:g}", (1.02 * last, 100 * target), where, color=colour, **text)
    _fewest_clients(axis, [run for _, run in panel.runs])
    shortened = _shorten(axis, [run.rounds for _, run in panel.runs])
    axis.set_xlim(0, 1.02 * last)
    axis.set_title(panel.title)
    axis.set_xlabel("Communication round")
    names = dict.fromkeys(COLUMNS[run.accuracy].label for _, run in panel.runs)
    axis.set_ylabel(" / ".join(names))
    handles, labels = axis.get_legend_handles_labels()
    marks = [
        Line2D([], [], marker="o", linestyle="", markerfacecolor=face, color="#444444", markersize=4.5)
        for face in ("white", "#444444")
    ]
    axis.legend([*handles, *marks], [*labels, "printed", "ours"], frameon=False, loc="lower right")
    return shortened


def _circle(axis: Any, row: str, round_: float, target: float, there: Counter[Any], *, filled: bool) -> None:
    """Draw the mark of a round, smaller and above where ``there`` are some at the same place."""
    look = {} if filled else {"markerfacecolor": "white"}
    before = there[round_, target]
    there[round_, target] += 1
    axis.plot(round_, 100 * target, "o", color=style(row)[0], markersize=4.5 * 0.6**before, zorder=3 + before, **look)


def _shorten(axis: Any, rounds: list[int]) -> bool:
    """Draw the rounds that one run alone has on a shorter scale; return whether there are many."""
    *others, last = sorted(rounds)
    if not others or not 0 < ALONE * others[-1] < last:
        return False
    end = 1.05 * others[-1]
    share = PART * end / (last - end)
    scale = (
        lambda x: np.where(x > end, end + (x - end) * share, x),
        lambda x: np.where(x > end, end + (x - end) / share, x),
    )
    axis.set_xscale("function", functions=scale)
    near, far = (MaxNLocator(bins).tick_values(*ends) for bins, ends in ((6, (0, end)), (3, (end, last))))
    ticks = [*near[near <= end], *far[(far > 1.1 * end) & (far <= last)]]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.axvspan(end, 1.02 * last, color="#888888", alpha=0.1, linewidth=0, zorder=0)
    return True


def _fewest_clients(axis: Any, runs: list[Trained]) -> None:
    """Mark the round of the fewest clients, if they are less than a third of the mean and the same for all runs."""
    clients: dict[float, set[float]] = {}
    for run in runs:
        for round_, number in zip(run.history["round"], run.history.get("clients", []), strict=False):
            clients.setdefault(round_, set()).add(number)
    drawn = {round_: each.pop() for round_, each in clients.items() if len(each) == 1}
    if not drawn:
        return
    round_, number = min(drawn.items(), key=lambda pair: pair[1])
    if 3 * number < statistics.fmean(drawn.values()):
        axis.axvline(round_, color="#888888", linewidth=0.6, linestyle=(0, (1, 2)), zorder=0)
        text = {"textcoords": "offset points", "fontsize": 6.5, "color": "#666666", "va": "bottom"}
        axis.annotate(many(int(number), "client"), (round_, axis.get_ylim()[0]), (3, 3), **text)


def make(panels: list[Panel], path: Path, page: str) -> None:
    """Draw ``panels`` into the PNG ``path``, whole: the same runs give the same bytes.

    ``page``: the digest of the page that the picture stands on.
    """
    save(lambda: draw(panels), [path], page)
