"""Requested outputs together: the report of a scale, and the tuning searches that their runs need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flatfed.plan import at_scale, numbers, tuning
from flatfed.plan.at_scale import ShownFigure, ShownTable
from flatfed.plan.experiment import Experiment, Requested
from flatfed.plan.number import runs_of
from flatfed.runs.paths import Paths
from flatfed.runs.run import Run
from flatfed.runs.tuning_choice import Search


@dataclass(frozen=True)
class ReportSpec:
    """The report, and the ``paths`` of its files.

    ``left_out`` has a line for every requested table and figure that the scale does not have.
    """

    scale: str
    tables: list[ShownTable]
    figures: list[ShownFigure]
    configuration: dict[str, Any]
    left_out: list[str]
    paths: Paths

    @property
    def runs(self) -> list[Run]:
        """The runs of all tables and figures."""
        tabled = runs_of(number for table in self.tables for number in table.numbers)
        drawn = {path: run for figure in self.figures for path, run in figure.runs.items()}
        return list((tabled | drawn).values())


def specification(experiment: Experiment, scale: str) -> ReportSpec:
    """Return the specification of the report on the requested tables and figures at ``scale``."""
    shown = experiment.existing(scale, experiment.requested)
    return ReportSpec(
        scale,
        [at_scale.table(experiment, scale, *table) for table in shown.tables.items()],
        [at_scale.figure(experiment, scale, name) for name in shown.figures],
        experiment.request.as_written(),
        experiment.left_out(scale, experiment.requested),
        experiment.paths,
    )


def searches(experiment: Experiment, scale: str, requested: Requested) -> list[Search]:
    """Return the searches that the runs of ``requested`` tables and figures need."""
    untuned = replace(experiment, request=experiment.request.model_copy(update={"tune": False}))
    tabled = [number for table in requested.tables.items() for number in numbers.numbers(untuned, scale, *table)]
    figures = [at_scale.figure(untuned, scale, name) for name in requested.figures]
    runs = [run for number in tabled for run in (*number.all_runs, *number.all_timed)]
    runs += [run for figure in figures for run in figure.runs.values()]
    needed = {}
    for protocol, split, row in dict.fromkeys((run.protocol, run.split, run.algorithm) for run in runs):
        search = tuning.search(experiment.catalog, scale, protocol, split, row)
        if tuning.open_keys(experiment.catalog, search, protocol, row):
            needed[search.folder(experiment.paths)] = search
    return list(needed.values())
