"""What a figure is made of: its runs and their analyses, held against those asked for before anything is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from flatfed.analysis.landscape import landscape_file
from flatfed.errors import DataError
from flatfed.experiment.panels import DrawnPanel, FigureSpec, FileMark, HessianBar
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


def _analyses(panels: Iterable[DrawnPanel]) -> Iterator[tuple[str, AnalysedModel, str]]:
    """Yield (file, what it says of a model, folder of the model's run) of every analysis that is there."""
    for mark in (mark for panel in panels for mark in panel.marks):
        if isinstance(mark, HessianBar):
            pairs = zip(mark.hessians, mark.runs, strict=False)
            yield from ((file, curvature.read(file).model, run) for file, run in pairs if Path(file).is_file())
        elif isinstance(mark, FileMark) and mark.runs and Path(mark.file).is_file():
            models = landscape_file.read(mark.file).about.models
            yield from ((mark.file, *pair) for pair in zip(models, mark.runs, strict=False))
