"""Curves over communication rounds: one panel per split, one line per algorithm.

As in FedSMOO, Figures 7 to 10 (appendix): panels are splits, lines are smoothed with a Hanning window. The unsmoothed
mean stands behind each line, so that a reader sees what was smoothed away, and a band shows one sample deviation over
seeds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

from flatfed.errors import DataError
from flatfed.experiment.panels import DrawnPanel, FigureSpec
from flatfed.figures.palette import strokes, styles
from flatfed.figures.style import caption, columns, counted, gridded, legend, quantity, sample, seeds, widths
from flatfed.papers.figure_kinds import PROBES
from flatfed.runs.record import METRICS, RunRecord
from flatfed.tables.readings import read_history

#: Lines of so many values or more are cut to what they do after their first eighth.
LONG = 40
CUT = " Of the first eighth of the rounds, parts lie outside the frame."

#: Inches from a panel's lower edge to a legend of its own, under the axis' label.
UNDER = -0.44

#: What is on the horizontal axis -> its label.
ACROSS = {"rounds": "Communication round", "communications": "Local communications\n(rounds x gossip steps)"}


def draw(spec: FigureSpec) -> Figure:
    """Return the figure of a specification of kind "curves".

    A run that is absent is left out and counted in the foot; an algorithm with none keeps its place in the
    legend.

    :raises DataError: the metric is unknown, or a metrics.csv or run.json is damaged.
    """
    figure, axes = gridded(len(spec.panels), columns(len(spec.panels)), 2.35)
    looks = [styles([series.algorithm for series in panel.marks]) for panel in spec.panels]
    drawn = strokes(zip([line.algorithm for line in spec.marks], itertools.chain(*looks), strict=True))
    records = {path: record for path, run in spec.runs.items() if (record := run.read_record())}
    entries: dict[str, Line2D] = {}
    probed: dict[str, RunRecord] = {}
    numbers: list[int] = []
    early = cut = False
    apart = _need_own_legends(spec.panels)
    for panel, axis, look in zip(spec.panels, axes, looks, strict=True):
        metric = panel.metric or spec.metric
        shown = quantity(spec, metric)
        there = {run.path: records[run.path] for line in panel.marks for run in line.runs if run.path in records}
        own, lasts = {}, set()
        for line, stroke in zip(panel.marks, (drawn[each] for each in look), strict=True):
            runs = [_read(run.path, there[run.path], metric) for run in line.runs if run.path in there]
            runs = [run for run in runs if run]
            numbers.append(len(runs))
            lasts |= {max(run) for run in runs}
            scaled = [{line.steps * at: shown.factor * value for at, value in run.items()} for run in runs]
            _line(axis, stroke, list(map(pd.Series, scaled)), spec.smooth)
            own[line.label] = sample(stroke)
        if metric in PROBES:
            _refuse_other_images(f"figure {spec.figure}: {panel.title}", there)
            probed |= there
        early |= len(lasts) > 1
        cut |= _cut(axis)
        axis.set(title=panel.title, xlabel=ACROSS[spec.across], ylabel=shown.label)
        axis.xaxis.get_major_locator().set_params(integer=True)
        if apart:
            below = axis.transAxes + ScaledTranslation(0, UNDER, figure.dpi_scale_trans)
            under = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": below, "borderaxespad": 0}
            axis.legend(own.values(), own.keys(), fontsize=7, frameon=False, columnspacing=1.0, ncols=3, **under)
        entries |= own
    if not apart:
        legend(figure, entries, spec.marks)
    absent = sum(len(line.runs) for line in spec.marks) - sum(numbers)
    said = f"Line: {seeds(numbers)}"
    if spec.smooth >= 3:
        said += f", smoothed with a Hanning window of {spec.smooth} evaluated rounds; thin: unsmoothed"
    said += "; band: ± one sample standard deviation over seeds." if max(numbers, default=0) > 1 else "."
    said += " A line that ends early: a run diverged or is unfinished." if early else ""
    said += counted({"runs are missing": absent})
    caption(figure, spec, said + widths(drawn) + (CUT if cut else "") + _cost(probed.values()))
    return figure


def _need_own_legends(shown: list[DrawnPanel]) -> bool:
    """Say whether panels need legends of their own: each shows other values of one algorithm, in the same shades."""
    labels = [[series.label for series in panel.marks] for panel in shown]
    bases = [[series.algorithm.partition("~")[0] for series in panel.marks] for panel in shown]
    return any(len(set(names)) < len(names) for names in bases) and any(each != labels[0] for each in labels)


def _read(folder: str, record: RunRecord, metric: str) -> dict[int, float]:
    """Return round -> finite value of a run, none where its lines are not there."""
    if metric in PROBES:
        pairs = _probes(folder, record, metric)
    elif not Path(folder, METRICS).is_file():
        return {}
    else:
        history = read_history(Path(folder), record, ("round", metric))
        pairs = list(zip(history["round"], history[metric], strict=True))
    return {number: value for number, value in pairs if math.isfinite(value)}


def _probes(folder: str, record: RunRecord, metric: str) -> list[tuple[int, float]]:
    """Return (finished rounds, value) of a run's probes; a measure that an algorithm does not have is left out."""
    try:
        return [(int(probe["round"]), float(probe[metric])) for probe in record.probes if probe[metric] is not None]
    except (ValueError, KeyError, TypeError) as problem:
        raise DataError(f"{folder}/run.json: holds no probes with {metric} ({problem!r})") from None


def _refuse_other_images(where: str, there: dict[str, RunRecord]) -> None:
    """Refuse probes of one seed that are on different images, so that their lines do not compare; DataError."""
    firsts: dict[int, tuple[str, tuple[str, str]]] = {}
    for folder, record in there.items():
        for probe in record.probes[:1]:
            images = record.dataset_digest, probe["images_sha256"]
            first, theirs = firsts.setdefault(record.description["seed"], (folder, images))
            if images != theirs:
                raise DataError(
                    f"{where}: the probes of {folder} are on other images (SHA-256 "
                    f"of their positions {images[1][:12]}) than those of {first} ({theirs[1][:12]}): they do not "
                    "compare. Runs of one deal have the same, at one place, too: `images_of` in config/splits.yaml"
                )


def _line(axis: Axes, look: dict[str, Any], runs: list[pd.Series], window: int) -> None:
    """Draw band, raw mean and smoothed mean over the rounds that every run (round -> value) has."""
    values = pd.concat(runs, axis=1, join="inner").sort_index() if runs else pd.DataFrame()
    if values.empty:
        return
    rounds, mean = values.index.to_numpy(), values.mean(axis=1).to_numpy()
    smooth = hanning(mean, window)
    if len(runs) > 1:
        deviation = hanning(values.std(axis=1, ddof=1).to_numpy(), window)
        axis.fill_between(rounds, smooth - deviation, smooth + deviation, color=look["color"], alpha=0.13, linewidth=0)
    if window >= 3:
        axis.plot(rounds, mean, color=look["color"], alpha=0.28, linewidth=0.6)
    axis.plot(rounds, smooth, **look)


def _cut(axis: Axes) -> bool:
    """Set the limits to the lines and bands, of long ones without the first eighth, in which they rise together.

    Returns whether something of them lies outside.
    """
    parts = [np.column_stack(line.get_data()) for line in axis.get_lines()]
    parts += [path.vertices for band in axis.collections for path in band.get_paths()]
    parts = [part for part in parts if len(part)]
    if not parts:
        return False
    starts = [part[:, 0].max() / 8 if len(np.unique(part[:, 0])) >= LONG else -math.inf for part in parts]
    shown = np.concatenate([part[part[:, 0] >= start, 1] for part, start in zip(parts, starts, strict=True)])
    room = 0.04 * (shown.max() - shown.min() or 1.0)
    low, high = shown.min() - room, shown.max() + room
    axis.set_ylim(low, high)
    if axis.dataLim.width:
        axis.set_xlim(axis.dataLim.x0, axis.dataLim.x1)
    every = np.concatenate([part[:, 1] for part in parts])
    return bool(every.min() < low or every.max() > high)


def _cost(found: Collection[RunRecord]) -> str:
    """Say how long the probes of runs took beside the runs, as far as every record tells."""
    if not found or any(record.seconds is None for record in found):
        return ""
    probes = sum(probe.get("seconds", 0.0) for record in found for probe in record.probes or ())
    runs = sum(record.seconds for record in found)
    return f" The probes took {probes:.3g} s, the runs beside them {runs:.3g} s."


def hanning(values: np.ndarray, window: int) -> np.ndarray:
    """Return ``values`` (rounds,) smoothed with a Hanning window of ``window`` points, all of positive weight.

    Near the ends the window is cut and its weights made to sum to one again, so the first and last values are not drawn
    to zero.
    """
    window = min(window, len(values) - (len(values) + 1) % 2)
    if window < 3:
        return values
    weights = np.hanning(window + 2)[1:-1]
    total = np.convolve(np.ones_like(values), weights, mode="same")
    return np.convolve(values, weights, mode="same") / total
