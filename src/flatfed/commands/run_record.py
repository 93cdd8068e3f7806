"""The record of a finished run, read for the commands that are given a run by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flatfed.errors import DataError
from flatfed.forms import check
from flatfed.runs import description, identity
from flatfed.runs import record as records
from flatfed.runs.record import RunRecord

#: Fields that these commands read and that records of early versions lack.
NEEDED = ("description_digest", "code_digest", "executor", "device", "threads", "versions", "host")
HOST = {"processor": (str, None), "gpu": (str, None)}


def read(path: Path) -> RunRecord:
    """Return the record in the file ``path``, its description in today's words.

    :raises DataError: there is none, or it is none of a finished run.
    """
    try:
        record = records.read(path)
    except FileNotFoundError:
        raise DataError(f"{path} is not there: no finished run lies in {path.parent}") from None
    record.require(NEEDED, path)
    try:
        check(record.host, HOST, f"{path}: host")
        description.check(record.description, f"{path}: description")
    except DataError as error:
        raise DataError(f"{path}: not the record of a run: {str(error).removeprefix(f'{path}: ')}") from None
    return replace(record, description=identity.updated(record.description))
