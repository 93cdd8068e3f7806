"""Curves over communication rounds: a panel per split, a line per algorithm, as in FedSMOO, Figures 7 to 10.

A Hanning window smooths each run; the unsmoothed mean is behind each line, with a band of one sample deviation.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flatfed.figures import captions, frames, palette, style
from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import KINDS

#: From this number of rounds on, the vertical limits ignore the first eighth.
LONG = 40

#: Horizontal axis -> its label.
ACROSS = {"rounds": "Communication round", "communications": "Local communications\n(rounds x gossip steps)"}


def draw(spec: ShownFigure) -> tuple[Figure, list[str]]:
    """Return a figure of kind "curves" and its explanation.

    :raises DataError: a metrics.csv or run.json is damaged.
    :raises NoData: no run has rounds.
    """
    frame, window = frames.curves(spec), getattr(spec.document.smooth, spec.scale, 0)
    lines = frame.groupby(["panel", "label", "run"])["value"]
    frame["smooth"] = lines.transform(lambda values: hanning(values.to_numpy(), window))
    # One aggregation of all lines: seaborn's errorbar="sd" takes a fifth of a second a line.
    means = frame.groupby(["panel", "label", "x"], as_index=False).agg(
        unsmoothed=("value", "mean"), mean=("smooth", "mean"), deviation=("smooth", "std")
    )
    panels, absent = frames.with_data(spec, frame["panel"])
    figure, axes = style.panels(spec, [panel.title for panel in panels.values()])
    looks = [palette.lines(panel.marks, palette.highlighted(spec)) for panel in panels.values()]
    entries = {}
    for look in sorted(looks, key=lambda look: -len(look["palette"])):  # a panel of all lines has their order
        entries |= palette.entries(look)
    no_common_label = len(looks) > 1 and len(entries) == sum(len(look["palette"]) for look in looks)
    for (index, panel), axis, look in zip(panels.items(), axes, looks, strict=True):
        of_panel = means[means["panel"] == index]
        if window >= 3:
            thin = {"hue": "label", "palette": look["palette"], "linewidth": 0.6, "alpha": 0.3, "legend": False}
            seaborn.lineplot(of_panel, x="x", y="unsmoothed", estimator=None, ax=axis, **thin)
        seaborn.lineplot(of_panel, x="x", y="mean", estimator=None, ax=axis, **look)
        for label, line in of_panel.dropna().groupby("label"):
            band = line["mean"] - line["deviation"], line["mean"] + line["deviation"]
            axis.fill_between(line["x"], *band, color=look["palette"][label], alpha=0.13, linewidth=0)
        across, quantity = ACROSS[spec.document.across or "rounds"], KINDS[spec.kind].quantities[panel.metric]
        labelled = axis.get_subplotspec().is_first_col() or len({panel.metric for panel in spec.panels}) > 1
        axis.set(xlabel=across, ylabel=quantity.label if labelled else "")
        axis.xaxis.get_major_locator().set_params(integer=True)
        _limit(axis, frame[frame["panel"] == index])
        if no_common_label:
            place = 0.5, -0.28 - 0.12 * across.count("\n")  # under the label of the axis
            below = {"loc": "upper center", "bbox_to_anchor": place, "ncols": 2, "fontsize": 7}
            axis.legend(handles=palette.entries(look).values(), labels=look["palette"].keys(), **below)
    if not no_common_label:
        style.legend(spec, figure, entries)
    return figure, [*_explanation(spec, frame, window), *palette.meanings(looks), *absent]


def _limit(axis: Axes, frame: pd.DataFrame) -> None:
    """Set the vertical limits to the lines, without the first eighth of long ones."""
    axis.margins(x=0)
    if frame["x"].nunique() >= LONG:
        late = frame[frame["x"] >= frame["x"].max() / 8]["smooth"]
        margin = 0.05 * (late.max() - late.min() or 1.0)
        axis.set_ylim(late.min() - margin, late.max() + margin)


def _explanation(spec: ShownFigure, frame: pd.DataFrame, window: int) -> Iterator[str]:
    runs = frame.groupby(["panel", "label"])["run"].nunique()
    smooth = f", smoothed with a Hanning window of {window} evaluated rounds, narrower near the ends; thin: unsmoothed"
    yield f"Line: {captions.seeds(runs)}{smooth if window >= 3 else ''}{captions.deviation('band', runs)}"
    if frame.groupby(["panel", "label"])["x"].max().groupby("panel").nunique().gt(1).any():
        yield "A line that ends early: a run diverged or is unfinished"
    if (frame.groupby("panel")["x"].nunique() >= LONG).any():
        yield "The frame may cut parts of the first eighth of the rounds"
    yield from captions.counts({"runs are missing": sum(len(mark.runs) for mark in spec.marks) - runs.sum()})


def hanning(values: np.ndarray, window: int) -> np.ndarray:
    """Return ``values`` smoothed with a Hanning window of ``window`` points of positive weight.

    Near an end the window is as wide as fits around a point: the first and the last value stay as they are.
    """
    smooth = values.copy()
    for half in range(1, min(window - 1, len(values) - 1) // 2 + 1):
        weights = np.hanning(2 * half + 3)[1:-1]
        smooth[half : len(values) - half] = np.convolve(values, weights / weights.sum(), "valid")
    return smooth
