"""What a figure is made of: its runs and their analyses, held against those asked for before anything is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flatfed.analysis.landscape import landscape_file
from flatfed.errors import DataError
from flatfed.experiment.panels import EigenvaluesPanel, FigureSpec, LinePanel, SurfacePanel
from flatfed.runs import curvature
from flatfed.runs import record as records
from flatfed.runs.analysed import AnalysedModel
from flatfed.runs.record import RunRecord


def check(spec: FigureSpec) -> list[RunRecord]:
    """Return the records of the runs of a figure, as far as they exist.

    :raises DataError: a run is damaged or another one, was trained on other data, or its lines are not those that its
        record was written with; an analysis is of another model than its run's. The message has a line for each.
    """
    records_found, refused = [], {}
    for run in spec.runs.values():
        try:
            if record := run.read_record():
                records_found.append(record)
                if (Path(run.path) / records.METRICS).is_file():
                    record.check_files(run.path, records.METRICS)
        except DataError as error:
            refused[str(error)] = None
    if refused:
        raise DataError("\n".join(refused))
    for file, model, folder in _analyses(spec.panels):
        spec.runs[folder].check_analysis(file, model)
    return records_found


def _analyses(panels: list[Any]) -> Iterator[tuple[str, AnalysedModel, str]]:
    """Yield (file, what it says of a model, folder of the model's run) of every analysis that is there."""
    for panel in panels:
        match panel:
            case EigenvaluesPanel():
                pairs = [pair for bar in panel.bars for pair in zip(bar.hessians, bar.runs, strict=False)]
                yield from ((file, curvature.read(file).model, run) for file, run in pairs if Path(file).is_file())
            case SurfacePanel():
                for each in panel.surfaces:
                    yield from ((each.surface, *pair) for pair in zip(_models(each.surface), each.runs, strict=False))
            case LinePanel():
                for each in panel.lines:
                    yield from ((each.line, *pair) for pair in zip(_models(each.line), each.runs, strict=False))


def _models(file: str) -> list[AnalysedModel]:
    """Return the models that the file of a landscape is of, none where it is not there."""
    return list(landscape_file.read(file).about.models) if Path(file).is_file() else []
