"""Folders of runs: their records, each checked against the lines next to it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from flatfed.commands import run_record
from flatfed.runs import record as records
from flatfed.runs.record import LINES_SO_FAR, METRICS, RECORD, RunRecord
from flatfed.tables.readings import history_of


def record_files(folders: Iterable[Path], *names: str, tuning: bool = False) -> list[Path]:
    """Return the files called ``names`` in ``folders``, at any depth; those of tuning's runs only with ``tuning``.

    What was replaced by another run lies in a hidden folder beside it, and is left out.
    """
    files = []
    for folder in folders:
        for file in (file for name in names for file in sorted(folder.rglob(name))):
            above = file.relative_to(folder).parent.parts
            if (tuning or "tuning" not in above) and not any(part.startswith(".") for part in above):
                files.append(file)
    return list(dict.fromkeys(files))


def read(file: Path) -> RunRecord:
    """Return the record in ``file``, run.json or run.so-far.json, checked against the lines next to it.

    :raises DataError: it is damaged, or the lines are not those that it was written with.
    """
    record = records.read(file)
    run_record.check_description(record, file)
    history_of(file.parent, record, ("round",), METRICS if file.name == RECORD else LINES_SO_FAR)
    return record
