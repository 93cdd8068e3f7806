"""The specification of the report of a scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flatfed.experiment import figure_specs, numbers, scales, table_specs
from flatfed.experiment.experiment import Experiment
from flatfed.experiment.figure_specs import FigureSpec
from flatfed.experiment.numbers import Number
from flatfed.experiment.table_specs import TableSpec
from flatfed.runs.run import Run


@dataclass(frozen=True)
class ReportTable:
    """A table of the report, its numbers, and its files."""

    layout: TableSpec
    numbers: list[Number]
    files: list[str]


@dataclass(frozen=True)
class ReportFigure:
    """A figure of the report, and its file ``png``."""

    spec: FigureSpec
    png: str


@dataclass(frozen=True)
class ReportSpec:
    """The report; ``left_out`` has a line for every requested table and figure that the scale does not have."""

    scale: str
    tables: list[ReportTable]
    figures: list[ReportFigure]
    configuration: dict[str, Any]
    left_out: list[str]

    @property
    def runs(self) -> list[Run]:
        """The runs of all tables and figures."""
        tabled = numbers.runs_of(number for table in self.tables for number in table.numbers)
        drawn = {path: run for figure in self.figures for path, run in figure.spec.runs.items()}
        return list((tabled | drawn).values())


def specification(experiment: Experiment, scale: str) -> ReportSpec:
    """Return the specification of the report on the requested tables and figures at ``scale``."""
    shown, paths = scales.existing(experiment, scale, experiment.requested), experiment.paths
    tables = [
        ReportTable(
            table_specs.table_spec(experiment, scale, name, columns),
            numbers.numbers(experiment, scale, name, columns),
            paths.table(scale, name),
        )
        for name, columns in shown.tables
    ]
    figures = [
        ReportFigure(figure_specs.figure_spec(experiment, scale, name), paths.figure(scale, name)[0])
        for name in shown.figures
    ]
    left_out = scales.left_out(experiment, scale, experiment.requested)
    return ReportSpec(scale, tables, figures, experiment.config, left_out)
