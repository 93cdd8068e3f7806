"""Largest eigenvalue of the Hessian, a bar per algorithm, with PyHessian's estimate, as in DFedSAM, Figure 5 (a).

The second panel has the Hessian scaled by the weights (:mod:`flatfed.runs.curvature`): longer filters alone can lower
the first eigenvalue.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flatfed.figures import captions, frames, style
from flatfed.figures.draw_bars import bars, label_bars, label_groups
from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import Mark
from flatfed.runs import curvature
from flatfed.runs.curvature import Hessian

#: Metric -> title of its panel.
TITLES = {"hessian_top_eigenvalue": "Hessian", "hessian_scaled_top_eigenvalue": "Hessian scaled by the weights"}

#: Mark of PyHessian's estimate.
DIAMOND = {"marker": "D", "linestyle": "none", "markersize": 4, "markerfacecolor": "white", "color": "#222222"}


def draw(spec: ShownFigure) -> tuple[Figure, list[str]]:
    """Return a figure of kind "eigenvalues" and its explanation.

    :raises DataError: a hessian.json is damaged or of another model.
    :raises NoData: none has an eigenvalue.
    """
    hessians = {(index, mark.label): _read(mark) for index, panel in enumerate(spec.panels) for mark in panel.marks}
    frame = _frame(hessians)
    panels, absent = frames.with_data(spec, frame["panel"])
    groups = ([*((index, mark.label) for mark in panel.marks), None] for index, panel in panels.items())
    bars_and_gaps = list(itertools.chain.from_iterable(groups))
    frame["position"] = [bars_and_gaps.index(bar) for bar in zip(frame["panel"], frame["label"], strict=True)]
    middles = frame.groupby("panel")["position"].agg(["min", "max"]).mean(axis=1)
    by_metric = dict(list(frame.groupby("metric", sort=False)))
    figure, axes = style.panels(spec, list(map(TITLES.get, by_metric)))
    entries = {}
    for axis, of_metric in zip(axes, by_metric.values(), strict=True):
        entries |= bars(axis, spec, of_metric, x="position", order=range(len(bars_and_gaps) - 1), dodge=False)
        theirs = of_metric.dropna().groupby("position")["pyhessian"].mean()
        if len(theirs):
            axis.plot(theirs.index, theirs, **DIAMOND)
            entries["PyHessian"] = Line2D([], [], **DIAMOND)
        label_bars(axis, ".3g", 5)
        axis.set_xlim(-0.75, len(bars_and_gaps) - 1.25)  # diamonds would widen one panel
        label_groups(axis, middles, panels.values())
        axis.set(xlabel="", ylabel="Largest eigenvalue (nats)")
    style.legend(spec, figure, entries)
    return figure, [*_explanation(spec, list(hessians.values())), *absent]


def _read(mark: Mark) -> list[Hessian]:
    hessians = []
    for path, run in zip(mark.files, mark.runs, strict=True):
        if Path(path).is_file():
            hessians.append(curvature.read(path))
            run.check_analysis(path, hessians[-1].model)
    return hessians


def _frame(hessians: Mapping[tuple[int, str], list[Hessian]]) -> pd.DataFrame:
    """Return the estimates, a row per metric and seed; ``pyhessian`` is NaN without its estimate.

    ``hessians``: (index of the panel, label) -> one per seed.
    """
    rows = [
        (*bar, metric, hessian.value(metric), hessian.pyhessian_value(metric))
        for bar, of_mark in hessians.items()
        for hessian in of_mark
        for metric in filter(hessian.estimates, TITLES)
    ]
    return pd.DataFrame(rows, columns=["panel", "label", "metric", "value", "pyhessian"]).astype({"pyhessian": float})


def _explanation(spec: ShownFigure, hessians: list[list[Hessian]]) -> Iterator[str]:
    read = [hessian for of_mark in hessians for hessian in of_mark]
    numbers = [sum(hessian.about.diverged_at is None for hessian in of_mark) for of_mark in hessians]
    complete = [hessian for hessian in read if all(map(hessian.estimates, TITLES))]
    yield (
        f"Bar: Hessian of the training loss at the final model, by Lanczos; {captions.seeds(numbers)}"
        f"{captions.deviation('whisker', numbers)}"
    )
    yield (
        "Scaled: of diag(|w|) H diag(|w|). Rescaled filters can change H but not the model; they do not change the "
        "scaled Hessian. If only the Hessian is smaller, the models may differ in filter lengths alone"
    )
    errors = [curvature.largest_error(complete, metric) for metric in TITLES]
    if None not in errors:
        shares = " and ".join(f"{100 * error:.2g} %" for error in errors)
        yield f"Largest residual of one seed: {shares} of the eigenvalue (Hessian and scaled Hessian)"
    diverged = len(read) - sum(numbers)
    cautioned = [hessian.about.run for hessian in read if any(map(hessian.warnings_about, TITLES))]
    yield from captions.counts({
        "Hessians are missing": sum(len(mark.files) for mark in spec.marks) - diverged - len(complete),
        "runs diverged and are left out": diverged,
        f"Hessians have a warning, see hessian.json of {', '.join(cautioned)}": len(cautioned),
    })
