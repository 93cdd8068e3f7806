"""Folders of runs that a command is given: their records, and the lines next to them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from flatfed.errors import DataError
from flatfed.files import misread
from flatfed.runs import description
from flatfed.runs import record as records
from flatfed.runs.record import LINES_SO_FAR, METRICS, RECORD, RECORD_SO_FAR, RunRecord
from flatfed.tables.readings import read_history

#: What a user does whose images lie in another order than those of a run.
IN_ORDER = "with the key `order` if its source has the images in another order than the run (docs/running.md)"


def record_files(folders: Iterable[Path], *names: str) -> list[Path]:
    """Return the files called ``names`` in ``folders``, at any depth, without those of tuning's runs.

    What was replaced by another run lies in a hidden folder beside it, and is left out.
    """
    found = [(folder, file) for folder in folders for name in names for file in sorted(folder.rglob(name))]
    above = {file: file.relative_to(folder).parent.parts for folder, file in found}
    return [file for file, parts in above.items() if not any(part[0] == "." or part == "tuning" for part in parts)]


def record_file(folder: Path) -> Path:
    """Return the file of the record in ``folder``: run.json, or run.so-far.json where there is only that."""
    finished, so_far = folder / RECORD, folder / RECORD_SO_FAR
    return so_far if so_far.exists() and not finished.exists() else finished


def lines_of(file: Path) -> Path:
    """Return the file of the lines next to a record, run.json or run.so-far.json."""
    return file.with_name(LINES_SO_FAR if file.name == RECORD_SO_FAR else METRICS)


def read_record(file: Path, *fields: str) -> RunRecord:
    """Return the record in ``file``, with these ``fields``, which a record may lack.

    :raises DataError: there is none, it is damaged, or its description is none of a run.
    """
    try:
        record = records.read(file)
    except FileNotFoundError:
        raise DataError(f"{file} is not there: no finished run lies in {file.parent}") from None
    record.require(fields, file)
    try:
        description.check(record.description, f"{file}: description")
    except DataError as error:
        raise misread(file, records.WHAT, error, records.AGAIN) from None
    return record


def read(file: Path, *fields: str) -> RunRecord:
    """Return :func:`read_record`, checked against the lines next to it.

    :raises DataError: as there, or the lines are damaged or not those that it was written with.
    """
    record = read_record(file, *fields)
    read_history(file.parent, record, ("round",), lines_of(file).name, every=True)
    return record
