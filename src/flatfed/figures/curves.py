"""Curves over communication rounds: one panel per split, one line per algorithm.
 As in FedSMOO, Figures 7 to 10 (appendix): panels are splits, lines are smoothed with a Hanning window. The
unsmoothed mean stands behind each line, so that nothing is smoothed away unseen, and a band shows one sample
deviation over seeds.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from flatfed.errors import DataError, unknown
from flatfed.figures.palette import strokes, styles
from flatfed.figures.style import PROBES, QUANTITIES, WIDTH, caption, columns, legend, sample, widths
from flatfed.runs.record import METRICS, PROBE_FORMAT, RunRecord
from flatfed.runs.wanted import Wanted
from flatfed.tables.readings import hold_rounds, read_metrics

#: What a curve can show: a column of metrics.csv, or a measure of a run's probes.
KNOWN = {**QUANTITIES, **PROBES}

#: Lines of so many values or more are cut to what they do after their first eighth.
LONG = 40
CUT = " Of the first eighth of the rounds, parts lie outside the frame."

#: Inches from a panel's lower edge to a legend of its own, under the axis' label.
UNDER = -0.44

#: What is on the horizontal axis -> its label.
ACROSS = {"rounds": "Communication round", "communications": "Local communications\n(rounds x gossip steps)"}


def draw(spec: dict[str, Any]) -> Figure:
    """Return the figure of a specification of kind "curves" (see ``flatfed.figures``).

    A run that is absent is left out and counted in the foot; an algorithm with none keeps its place in the
    legend.

    :raises DataError: the metric is unknown, or a metrics.csv or run.json is damaged.
    """
    panels, window = spec["panels"], spec.get("smooth", 0)
    across = columns(len(panels))
    down = math.ceil(len(panels) / across)
    with seaborn.axes_style("whitegrid", {"grid.color": "#e6e6e6", "axes.edgecolor": "#444444"}):
        figure, axes = plt.subplots(
            down, across, figsize=(WIDTH, 2.35 * down + 0.6), squeeze=False, layout="constrained"
        )
    entries: dict[str, Any] = {}
    apart = _apart(panels)
    looks = [styles([series["algorithm"] for series in panel["series"]]) for panel in panels]
    algorithms = [series["algorithm"] for panel in panels for series in panel["series"]]
    drawn = strokes(zip(algorithms, itertools.chain(*looks), strict=True))
    seeds, absent, early, cut, folders = set(), 0, False, False, []
    for place, axis in enumerate(axes.flat):
        if place >= len(panels):
            axis.set_visible(False)
            continue
        lines, lasts = panels[place]["series"], set()
        metric = panels[place].get("metric", spec["metric"])
        if metric not in KNOWN:
            raise DataError(unknown("metric", metric, KNOWN, f"figure {spec['figure']}"))
        label, factor = KNOWN[metric]
        for series, look in zip(lines, looks[place], strict=True):
            runs = [run for folder in series["runs"] if (run := _read(folder, metric))]
            absent += len(series["runs"]) - len(runs)
            seeds.add(len(runs))
            lasts |= {max(run, default=0) for run in runs}
            runs = [{series.get("steps", 1) * number: value for number, value in run.items()} for run in runs]
            _line(axis, drawn[look], runs, window, factor)
            entries[series["label"]] = sample(drawn[look])
        if apart:
            own = {series["label"]: entries[series["label"]] for series in lines}
            below = axis.transAxes + ScaledTranslation(0, UNDER, figure.dpi_scale_trans)
            under = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": below, "borderaxespad": 0}
            axis.legend(own.values(), own.keys(), fontsize=7, frameon=False, columnspacing=1.0, ncols=3, **under)
        if metric in PROBES:
            _hold_alike(spec, panels[place])
        early = early or len(lasts) > 1
        cut = _cut(axis) or cut
        folders += [folder for series in lines for folder in series["runs"] if metric in PROBES]
        axis.set_title(panels[place]["title"])
        axis.set_xlabel(ACROSS[spec.get("across", "rounds")])
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_ylabel(label)
    if not apart:
        legend(figure, entries, {line["label"]: line["algorithm"] for panel in panels for line in panel["series"]})
    said = _reading(window, seeds, absent, early) + widths(drawn) + (CUT if cut else "") + _cost(folders)
    caption(figure, spec, said)
    return figure


def _apart(panels: list[dict[str, Any]]) -> bool:
    """Say whether panels need legends of their own: each shows other values of one algorithm, in the same shades."""
    shown = [[series["label"] for series in panel["series"]] for panel in panels]
    several = any(
        len({series["algorithm"].partition("~")[0] for series in panel["series"]}) < len(panel["series"])
        for panel in panels
    )
    return several and any(labels != shown[0] for labels in shown)


def hanning(values: np.ndarray, window: int) -> np.ndarray:
    """Return ``values`` (rounds,) smoothed with a Hanning window of ``window`` points, all of positive
    weight.

    Near the ends the window is cut and its weights made to sum to one again, so the first and last values
    are not drawn to zero.
    """
    window = min(window, len(values) - (len(values) + 1) % 2)
    if window < 3:
        return values
    weights = np.hanning(window + 2)[1:-1]
    total = np.convolve(np.ones_like(values), weights, mode="same")
    return np.convolve(values, weights, mode="same") / total


def _read(folder: str, metric: str) -> dict[int, float] | None:
    """Return round -> finite value of a run, None where it is not there."""
    record, path = Wanted(folder).record(), Path(folder) / METRICS
    if record is None or not (path.is_file() or metric in PROBES):
        return None
    if metric in PROBES:
        pairs = _probes(folder, record, metric)
    else:
        record.check_files(folder, METRICS)
        history = read_metrics(path, ("round", metric))
        hold_rounds(Path(folder), record, history)
        pairs = list(zip(history["round"], history[metric], strict=True))
    return {number: value for number, value in pairs if math.isfinite(value)}


def _probes(folder: str, record: RunRecord, metric: str) -> list[tuple[int, float]]:
    """Return (finished rounds, value) of a run's probes; a measure that an algorithm does not have is left out."""
    try:
        if any(one.get("format") != PROBE_FORMAT for one in record.probes):
            raise DataError(
                f"{folder}/run.json: its probes were written by an earlier version, which measured something else "
                f"under the name of {metric} (format {PROBE_FORMAT} is wanted); train the run again"
            )
        return [(int(one["round"]), float(one[metric])) for one in record.probes if one[metric] is not None]
    except (ValueError, KeyError, TypeError) as problem:
        raise DataError(f"{folder}/run.json: holds no probes with {metric} ({problem!r})") from None


def _hold_alike(spec: dict[str, Any], panel: dict[str, Any]) -> None:
    """Refuse probes of one seed that are on different images, so that their lines do not compare; DataError."""
    firsts: dict[int, tuple[str, tuple[str, str]]] = {}
    for folder in [folder for series in panel["series"] for folder in series["runs"]]:
        record = Wanted(folder).record()
        for one in record.probes[:1] if record else ():
            images = record.dataset_digest, one["images_sha256"]
            first, theirs = firsts.setdefault(record.description["seed"], (folder, images))
            if images != theirs:
                raise DataError(
                    f"figure {spec['figure']}: {panel['title']}: the probes of {folder} are on other images (SHA-256 "
                    f"of their positions {images[1][:12]}) than those of {first} ({theirs[1][:12]}): they do not "
                    "compare. Runs of one deal have the same, at one place, too: `images_of` in config/splits.yaml"
                )


def _line(axis: Axes, look: dict[str, Any], runs: list[dict[int, float]], window: int, factor: float) -> None:
    """Draw band, raw mean and smoothed mean over the rounds that every run has."""
    rounds = sorted(set.intersection(*map(set, runs))) if runs else []
    values = factor * np.array([[run[number] for number in rounds] for run in runs]).reshape(len(runs), len(rounds))
    if not rounds:
        return
    mean = values.mean(axis=0)
    smooth = hanning(mean, window)
    if len(runs) > 1:
        deviation = hanning(values.std(axis=0, ddof=1), window)
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


def _cost(folders: list[str]) -> str:
    """Say how long the probes of runs took beside the runs, as far as every record tells."""
    found = [record for folder in dict.fromkeys(folders) if (record := Wanted(folder).record())]
    if not found or any(record.seconds is None for record in found):
        return ""
    probes = sum(probe.get("seconds", 0.0) for record in found for probe in record.probes or ())
    runs = sum(record.seconds for record in found)
    return f" The probes took {probes:.3g} s, the runs beside them {runs:.3g} s."


def _reading(window: int, seeds: set[int], absent: int, early: bool) -> str:
    """Say what line, shade and band are, and what is not there."""
    most = max(seeds, default=0)
    line = "mean over seeds" if most > 1 else "one seed"
    numbers = " or ".join(str(number) for number in sorted(seeds) if number)
    said = f"Line: {line}" + (f" (n = {numbers})" if numbers else "")
    said += f", smoothed with a Hanning window of {window} evaluated rounds; thin: unsmoothed" if window >= 3 else ""
    said += "; band: ± one sample standard deviation over seeds." if most > 1 else "."
    said += " A line that ends early: a run diverged or is unfinished." if early else ""
    return said + (f" {absent} runs are missing." if absent else "")
