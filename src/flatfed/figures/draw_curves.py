"""Curves over communication rounds: a panel per split, a line per algorithm, as in FedSMOO, Figures 7 to 10.

A Hanning window smooths the lines; the unsmoothed mean is behind each line, with a band of one sample deviation.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

from flatfed.errors import DataError
from flatfed.figures import style
from flatfed.figures.palette import strokes, styles
from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import PROBES, Panel
from flatfed.runs.paths import without_label
from flatfed.runs.record import RunRecord
from flatfed.tables.readings import read_history

#: From this number of values on, the vertical limits ignore the first eighth of a line.
LONG = 40
CUT = " The frame cuts parts of the first eighth of the rounds."

#: Inches from the lower edge of a panel to its legend.
BELOW = -0.44

#: Horizontal axis -> its label.
ACROSS = {"rounds": "Communication round", "communications": "Local communications\n(rounds x gossip steps)"}


def draw(spec: ShownFigure) -> Figure:
    """Return a figure of kind "curves"; the caption counts absent runs.

    :raises DataError: the metric is unknown, or a metrics.csv or run.json is damaged.
    """
    figure, axes = style.gridded(len(spec.panels), style.columns(len(spec.panels)), 2.35)
    looks = [styles([line.algorithm for line in panel.marks]) for panel in spec.panels]
    algorithms = [line.algorithm for line in spec.marks]
    drawn = strokes(zip(algorithms, itertools.chain(*looks), strict=True), spec.highlight)
    records = {path: record for path, run in spec.runs.items() if (record := run.read_record(spec.so_far))}
    entries: dict[str, Line2D] = {}
    numbers: list[int] = []
    early = cut = False
    window = getattr(spec.document.smooth, spec.scale, 0)
    separate = _need_own_legends(spec.panels)
    for panel, axis, panel_looks in zip(spec.panels, axes, looks, strict=True):
        metric, shown = panel.metric, style.quantity(spec, panel.metric)
        present = {run.path: records[run.path] for line in panel.marks for run in line.runs if run.path in records}
        panel_entries, last_rounds = {}, set()
        for line, look in zip(panel.marks, panel_looks, strict=True):
            runs = [_read(run.path, present[run.path], metric) for run in line.runs if run.path in present]
            runs = [shown.factor * values for values in runs if len(values)]
            numbers.append(len(runs))
            last_rounds |= {values.index.max() for values in runs}
            _draw(axis, drawn[look], runs, line.steps, window)
            panel_entries[line.label] = style.legend_line(drawn[look])
        if metric in PROBES:
            _check_images(f"figure {spec.id}: {panel.title}", present)
        early |= len(last_rounds) > 1
        cut |= _cut(axis)
        axis.set(title=panel.title, xlabel=ACROSS[spec.document.across or "rounds"], ylabel=shown.label)
        axis.xaxis.get_major_locator().set_params(integer=True)
        if separate:
            below = axis.transAxes + ScaledTranslation(0, BELOW, figure.dpi_scale_trans)
            anchor = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": below, "borderaxespad": 0}
            handles = panel_entries.values(), panel_entries.keys()
            axis.legend(*handles, fontsize=7, frameon=False, columnspacing=1.0, ncols=3, **anchor)
        entries |= panel_entries
    if not separate:
        style.legend(figure, entries, spec.marks)
    text = f"Line: {style.seed_text(numbers)}"
    if window >= 3:
        text += f", smoothed with a Hanning window of {window} evaluated rounds; thin: unsmoothed"
    text += "; band: ± one sample standard deviation over seeds." if max(numbers, default=0) > 1 else "."
    text += " A line that ends early: a run diverged or is unfinished." if early else ""
    text += style.count_text({"runs are missing": sum(len(line.runs) for line in spec.marks) - sum(numbers)})
    style.caption(figure, spec, text + style.width_text(drawn) + CUT * cut)
    return figure


def _need_own_legends(panels: list[Panel]) -> bool:
    """Return whether each panel shows other values of an algorithm's parameter, in the same shades."""
    labels = [[line.label for line in panel.marks] for panel in panels]
    bases = [[without_label(line.algorithm) for line in panel.marks] for panel in panels]
    repeated = any(len(set(names)) < len(names) for names in bases)
    return repeated and any(names != labels[0] for names in labels)


def _read(folder: str, record: RunRecord, metric: str) -> pd.Series:
    """Return the finite values of a run by round; none without metrics.csv."""
    values = {}
    if metric in PROBES:
        try:
            values = {int(probe["round"]): probe[metric] for probe in record.probes if probe[metric] is not None}
        except (ValueError, KeyError, TypeError) as problem:
            raise DataError(f"{folder}/run.json: holds no probes with {metric} ({problem!r})") from None
    elif Path(folder, record.metrics).is_file():
        history = read_history(Path(folder), record, ("round", metric))
        values = dict(zip(history["round"], history[metric], strict=True))
    series = pd.Series(values, dtype=float)
    return series[np.isfinite(series)]


def _check_images(where: str, records: dict[str, RunRecord]) -> None:
    """Raise DataError if the probes of one seed use different images."""
    firsts: dict[int, tuple[str, tuple[str, str]]] = {}
    for folder, record in records.items():
        for probe in record.probes[:1]:
            images = record.dataset_digest, probe["images_sha256"]
            first, first_images = firsts.setdefault(record.config.seed, (folder, images))
            if images != first_images:
                raise DataError(
                    f"{where}: the probes of {folder} use other images (SHA-256 of their positions {images[1][:12]}) "
                    f"than those of {first} ({first_images[1][:12]}), so they do not compare. Runs of one partition "
                    "have the same images; `images_of` in config/splits.yaml gives a central split those of another"
                )


def _draw(axis: Axes, look: dict[str, Any], runs: list[pd.Series], steps: int, window: int) -> None:
    """Draw band, mean and smoothed mean over the rounds that all runs have; ``steps``: communications per round."""
    values = pd.concat(runs, axis=1, join="inner").sort_index() if runs else pd.DataFrame()
    if values.empty:
        return
    rounds, mean = steps * values.index.to_numpy(), values.mean(axis=1)
    smooth = hanning(mean, window)
    if len(runs) > 1:
        deviation = hanning(values.std(axis=1, ddof=1), window)
        axis.fill_between(rounds, smooth - deviation, smooth + deviation, color=look["color"], alpha=0.13, linewidth=0)
    if window >= 3:
        axis.plot(rounds, mean, color=look["color"], alpha=0.28, linewidth=0.6)
    axis.plot(rounds, smooth, **look)


def _cut(axis: Axes) -> bool:
    """Set the limits to lines and bands, without the first eighth of long ones; return whether they cut a part off."""
    parts = [np.column_stack(line.get_data()) for line in axis.get_lines()]
    parts += [path.vertices for band in axis.collections for path in band.get_paths()]
    if not parts:
        return False
    starts = [part[:, 0].max() / 8 if len(np.unique(part[:, 0])) >= LONG else -math.inf for part in parts]
    late = np.concatenate([part[part[:, 0] >= start, 1] for part, start in zip(parts, starts, strict=True)])
    margin = 0.04 * (late.max() - late.min() or 1.0)
    low, high = late.min() - margin, late.max() + margin
    axis.margins(x=0)
    axis.set_ylim(low, high)
    values = np.concatenate([part[:, 1] for part in parts])
    return bool(values.min() < low or values.max() > high)


def hanning(values: pd.Series, window: int) -> pd.Series:
    """Return ``values`` smoothed with a Hanning window of ``window`` points of positive weight.

    The window is cut at the ends and its weights renormalized.
    """
    window = min(window, len(values) - (len(values) + 1) % 2)
    if window < 3:
        return values
    return values.rolling(window + 2, center=True, min_periods=1, win_type="hann").mean()
