"""The record of a finished run, read for the commands that are given a run by hand."""

from __future__ import annotations

from pathlib import Path

from flatfed.errors import DataError
from flatfed.files import misread
from flatfed.runs import description
from flatfed.runs import record as records
from flatfed.runs.record import RunRecord
from flatfed.runs.timing import Timing

#: Fields that these commands read and that a record may lack.
NEEDED = ("description_digest", "executor", "device", "threads", "libraries", "host")

#: What a user does whose images lie in another order than those of a run.
IN_ORDER = "with the key `order` if its source has the images in another order than the run (docs/running.md)"


def read(path: Path) -> RunRecord:
    """Return the record in the file ``path``.

    :raises DataError: there is none, or it is none of a finished run.
    """
    try:
        record = records.read(path)
    except FileNotFoundError:
        raise DataError(f"{path} is not there: no finished run lies in {path.parent}") from None
    record.require(NEEDED, path)
    check_description(record, path)
    return record


def check_description(about: RunRecord | Timing, path: Path) -> None:
    """Raise DataError where the description in a record, or a timing, of the file ``path`` is none of a run."""
    try:
        description.check(about.description, f"{path}: description")
    except DataError as error:
        raise misread(path, records.WHAT, error, records.AGAIN) from None
