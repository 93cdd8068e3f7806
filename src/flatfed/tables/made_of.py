"""What a figure is made of: its runs and their analyses, held against those asked for before anything is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from flatfed.analysis.landscape import landscape_file
from flatfed.errors import DataError
from flatfed.experiment.panels import FigureSpec, Mark
from flatfed.runs import curvature
from flatfed.runs import record as records
from flatfed.runs.analysed import AnalysedModel
from flatfed.runs.record import RunRecord
from flatfed.runs.run import Run


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
    for mark in spec.marks if spec.analysed else ():
        for run, file, model in _analyses(spec.kind, mark):
            run.check_analysis(file, model)
    return records_found


def _analyses(kind: str, mark: Mark) -> Iterator[tuple[Run, str, AnalysedModel]]:
    """Yield (run, file, what it says of the run's model) of every analysis of ``mark`` that is there."""
    if kind == "eigenvalues":
        pairs = zip(mark.runs, mark.files, strict=False)
        yield from ((run, file, curvature.read(file).model) for run, file in pairs if Path(file).is_file())
    elif Path(mark.files[0]).is_file():
        models = landscape_file.read(mark.files[0]).about.models
        yield from ((run, mark.files[0], model) for run, model in zip(mark.runs, models, strict=False))
