"""The record of a run, run.json, as the commands read it that make something of a run by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flatfed.commands import run_description
from flatfed.errors import DataError
from flatfed.forms import Named, Whole, check
from flatfed.runs import identity
from flatfed.runs import record as records

#: What every finished run says of itself (:mod:`flatfed.forms`); other things depend on the version that trained it.
FORM = {
    "description": dict,
    **dict.fromkeys(("description_digest", "dataset_digest", "partition_digest", "code_digest", "executor"), str),
    "weights_digest?": str,
    "device": Named("device", ("cpu", "cuda")),
    "threads": Whole(1),
    "rounds_done": Whole(0),
    "diverged_at": (Whole(1), None),
    "versions": dict,
    "host": {"processor": (str, None), "gpu": (str, None)},
}


def read(path: Path) -> dict[str, Any]:
    """Return the record in the file ``path``; DataError where there is none, or none of a finished run."""
    try:
        record = records.read(path)
    except FileNotFoundError:
        raise DataError(f"{path} is not there: no finished run lies in {path.parent}") from None
    try:
        check(record, FORM, str(path))
        run_description.check(record["description"], f"{path}: description")
    except DataError as error:
        raise DataError(f"{path}: not the record of a run: {str(error).removeprefix(f'{path}: ')}") from None
    return {**record, "description": identity.today(record["description"])}
