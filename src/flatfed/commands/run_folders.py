"""The records of folders of runs, and the metrics next to them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from flatfed.errors import DataError
from flatfed.runs import record as records
from flatfed.runs.record import LINES_SO_FAR, METRICS, RECORD, RECORD_SO_FAR, RunRecord

#: A remedy for another dataset digest.
ORDER_HINT = "If its source has another order of images than the run, use the key `order` (docs/running.md)."


def record_files(folders: Iterable[Path], *names: str) -> list[Path]:
    """Return the files ``names`` in ``folders``, at any depth, without tuning runs and hidden folders."""
    files = [(folder, file) for folder in folders for name in names for file in sorted(folder.rglob(name))]
    parents = {file: file.relative_to(folder).parent.parts for folder, file in files}
    return [file for file, parts in parents.items() if not any(part[0] == "." or part == "tuning" for part in parts)]


def record_file(folder: Path) -> Path:
    """Return run.json in ``folder``, or run.so-far.json if it is the only record."""
    finished, so_far = folder / RECORD, folder / RECORD_SO_FAR
    return so_far if so_far.exists() and not finished.exists() else finished


def metrics_file(file: Path) -> Path:
    """Return the file of metrics next to a record, run.json or run.so-far.json."""
    return file.with_name(LINES_SO_FAR if file.name == RECORD_SO_FAR else METRICS)


def read_record(file: Path, *fields: str) -> RunRecord:
    """Return the record in ``file``; DataError if it is missing, damaged or without one of ``fields``."""
    try:
        record = records.read(file)
    except FileNotFoundError:
        raise DataError(f"{file} is missing: {file.parent} contains no finished run") from None
    record.require(fields, file)
    return record


def read_checking_metrics(file: Path, *fields: str) -> RunRecord:
    """Return :func:`read_record`; DataError also if its metrics are damaged or changed."""
    from flatfed.tables.readings import read_history  # imports PyYAML, which a host that only trains may lack

    record = read_record(file, *fields)
    read_history(file.parent, record, ("round",), metrics_file(file).name, every=True)
    return record
