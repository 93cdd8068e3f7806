"""Folders of runs: their records, each checked against the lines next to it and against the data here."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flatfed.commands import run_record
from flatfed.runs import record as records
from flatfed.runs.record import LINES_SO_FAR, METRICS, RECORD_SO_FAR, RunRecord
from flatfed.tables.readings import history_of

#: Digest of a record -> what helps where it is not the one here.
HINTS = {"versions": "; --other-code accepts it", "dataset_digest": f"; make it again {run_record.IN_ORDER}"}


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


def lines_of(file: Path) -> Path:
    """Return the file of the lines next to a record, run.json or run.so-far.json."""
    return file.with_name(LINES_SO_FAR if file.name == RECORD_SO_FAR else METRICS)


def read(file: Path) -> RunRecord:
    """Return the record in ``file``, run.json or run.so-far.json, checked against the lines next to it.

    :raises DataError: it is damaged, or the lines are not those that it was written with.
    """
    record = records.read(file)
    run_record.check_description(record, file)
    check_lines(file, record)
    return record


def check_lines(file: Path, record: RunRecord) -> None:
    """Refuse lines next to the ``record`` in ``file`` that are damaged or not those that it was written with."""
    history_of(file.parent, record, ("round",), lines_of(file).name, every=True)


def differing_digests(record: RunRecord, **here: Any) -> list[str]:
    """Return a line for each of the digests and versions ``here`` that is not the record's."""
    pairs = [(key, getattr(record, key), value) for key, value in here.items()]
    return [
        f"{key} is {_short(was)}, but here it is {_short(now)}{HINTS.get(key, '')}"
        for key, was, now in pairs
        if was != now
    ]


def _short(value: Any) -> str:
    return value[:12] if isinstance(value, str) else json.dumps(value)
