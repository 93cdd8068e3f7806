"""The numbers of a figure as a frame, a row per seed, in units of the axis."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flatfed.errors import DataError
from flatfed.figures import captions
from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import KINDS, PROBES, Panel
from flatfed.runs.record import RunRecord
from flatfed.runs.run import Run
from flatfed.tables.measurement import measure
from flatfed.tables.readings import read_history


class NoData(Exception):
    """No panel of a figure has data."""


def with_data(spec: ShownFigure, indices: Iterable[int]) -> tuple[dict[int, Panel], list[str]]:
    """Return the panels with data, which are at ``indices``, and the sentence on the others, which are not drawn.

    :raises NoData: no panel has data.
    """
    panels = {index: spec.panels[index] for index in sorted({*indices})}
    if not panels:
        raise NoData("Nothing to draw: all runs diverged, or they or their analyses are missing")
    others = [panel.title for index, panel in enumerate(spec.panels) if index not in panels]
    return panels, [f"Not drawn, without data: {'; '.join(others)}"] if others else []


def curves(spec: ShownFigure) -> pd.DataFrame:
    """Return the finite values of a figure of curves at the rounds that all runs of a line have.

    Columns: ``panel`` (its index), ``label``, ``run``, ``x`` and ``value``.

    :raises DataError: a metrics.csv or run.json is damaged.
    """
    records = {path: record for path, run in spec.runs.items() if (record := run.read_record())}
    parts = [pd.DataFrame(columns=["panel", "label", "run", "x", "value"])]
    for index, panel in enumerate(spec.panels):
        for mark in panel.marks:
            for run in (run for run in mark.runs if run.path in records):
                values = _history(run, records[run.path], panel.metric)
                factor = KINDS[spec.kind].quantities[panel.metric].factor
                numbers = {"x": mark.steps * values.index, "value": factor * values.to_numpy()}
                parts.append(pd.DataFrame({"panel": index, "label": mark.label, "run": run.path, **numbers}))
    frame = pd.concat([part for part in parts if len(part)] or parts, ignore_index=True)
    runs = frame.groupby(["panel", "label"])["run"].transform("nunique")
    return frame[frame.groupby(["panel", "label", "x"])["run"].transform("nunique") == runs]


def finals(spec: ShownFigure) -> tuple[pd.DataFrame, dict[int, Panel], list[str]]:
    """Return the final numbers of a figure, the panels with data, and the sentences on runs without a number.

    Columns: ``panel`` (its index), ``label``, ``seed``, ``x`` (of a sweep) and ``value``.

    :raises DataError: a run.json or metrics.csv is damaged.
    :raises NoData: no run has a final number.
    """
    rows: list[tuple[Any, ...]] = []
    absent = diverged = 0
    for index, panel in enumerate(spec.panels):
        factor = KINDS[spec.kind].quantities[panel.metric].factor
        for mark in panel.marks:
            for number in mark.numbers:
                measured = measure(number)
                absent += sum(run.reading is None for run in measured.runs)
                diverged += sum(run.diverged for run in measured.runs)
                if measured.value is not None:
                    rows.append((index, mark.label, number.seed, mark.x, factor * measured.value))
    frame = pd.DataFrame(rows, columns=["panel", "label", "seed", "x", "value"])
    panels, not_drawn = with_data(spec, frame["panel"])
    without = {"runs are missing": absent, "runs diverged and are left out": diverged}
    return frame, panels, [*captions.counts(without), *not_drawn]


def _history(run: Run, record: RunRecord, metric: str) -> pd.Series:
    """Return the finite values of a run by round; none without metrics.csv."""
    values = {}
    if metric in PROBES:
        try:
            values = {int(probe["round"]): probe[metric] for probe in record.probes if probe[metric] is not None}
        except (ValueError, KeyError, TypeError) as problem:
            raise DataError(f"{run.path}/run.json: holds no probes with {metric} ({problem!r})") from None
    elif Path(run.path, record.metrics).is_file():
        values = read_history(Path(run.path), record, [metric])[metric]
    series = pd.Series(values, dtype=float)
    return series[np.isfinite(series)]
