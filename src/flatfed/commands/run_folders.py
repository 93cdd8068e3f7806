"""Folders of runs: their records, each checked against the lines next to it and against the data here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from flatfed.commands import run_record
from flatfed.runs import record as records
from flatfed.runs.record import LINES_SO_FAR, METRICS, RECORD_SO_FAR, RunRecord
from flatfed.tables.readings import history_of

#: Digest of a record -> what helps where it is not the one here.
HINTS = {"code_digest": "; --other-code accepts it", "dataset_digest": f"; make it again {run_record.IN_ORDER}"}


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


def differing_digests(record: RunRecord, **digests: str) -> list[str]:
    """Return a line for each of ``digests``, which are those here, that is not the record's."""
    recorded = {key: str(getattr(record, key)) for key in digests}
    return [
        f"{key} is {recorded[key][:12]}, but here it is {digest[:12]}{HINTS.get(key, '')}"
        for key, digest in digests.items()
        if recorded[key] != digest
    ]
