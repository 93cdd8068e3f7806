"""The last lines on the screen when Snakemake has ended: failed jobs, diverged trainings, cells before and after."""

from __future__ import annotations

import contextlib
import csv
import logging
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flatfed.errors import DataError
from flatfed.files import read_json
from flatfed.papers.units import written
from flatfed.runs import record as records
from flatfed.runs.places import Places

MOST = 10  # jobs that are named; of the others, the number
SILENT = "it left no message: killed, or out of memory?"


def brief(formatter: logging.Formatter) -> None:
    """Have Snakemake's ``formatter`` show of a failed job its message and logs, not its command, a page of JSON."""
    whole, messages = formatter.format, {}

    def text(record: logging.LogRecord) -> str:
        match vars(record):
            case {"event": "job_info", "jobid": job, "rule_msg": message}:
                messages[job] = message
            case {"event": "job_error", "jobid": job} as about:
                said = dict.fromkeys(("msg", "rule_msg"), messages.get(job))
                record = logging.makeLogRecord({**about, **said, "input": None, "output": None, "shellcmd": None})
            case {"event": "error", "msg": str(words)} if "\nCalledProcessError in file" in words:
                return ""  # the command again
        return whole(record)

    formatter.format = text


def failed(logs: Iterable[str]) -> list[str]:
    """Return "log file: reason" of failed jobs, by their ``logs``.

    The reason is the last line of a log: a job that refuses its work ends with it.
    """
    texts = {log: Path(log).read_text(encoding="utf-8", errors="replace") for log in logs if Path(log).is_file()}
    return [f"{log}: {last_line(texts.get(log, '')) or SILENT}" for log in logs]


def diverged(made: Iterable[Path]) -> list[str]:
    """Return "folder: diverged in round r" of the runs that ended so; ``made``: each run.json of the jobs."""
    lines = []
    for path in made:
        with contextlib.suppress(OSError, DataError):  # it was not made, and `failed` says why
            if (ended := records.read(path).diverged_at) is not None:
                lines.append(f"{path.parent}: diverged in round {ended}; it is recorded, and tables say so")
    return lines


def say(title: str, lines: list[str]) -> None:
    """Print ``lines``, if there are any, under ``title`` to standard error, the first :data:`MOST` of them."""
    if lines:
        more = [f"and {len(lines) - MOST} more"] if len(lines) > MOST else []
        print("\n".join([title, *(f"  {line}" for line in [*lines[:MOST], *more])]), file=sys.stderr)


def last_line(log: str) -> str:
    """Return the last line of a ``log``'s text, "" of an empty one; what a bar wrote over itself counts as lines."""
    return re.split(r"[\r\n]+", log.strip())[-1].strip()


def cells_before(targets: Iterable[str], places: Places) -> dict[str, str]:
    """Return the number of each cell file among ``targets``: as its table shows it, else "none"."""
    ids = re.escape(places.cell("@", "@", "@", "@")).replace("@", "([^/]+)")
    matches = {target: match.groups() for target in targets if (match := re.fullmatch(ids, target))}
    return {target: _shown(*match, places) for target, match in matches.items()}


def _shown(scale: str, table: str, column: str, row: str, places: Places) -> str:
    with contextlib.suppress(OSError, KeyError, ValueError):  # no such table, or a damaged one
        for line in csv.DictReader(Path(places.table(scale, table)[0]).read_text(encoding="utf-8").splitlines()):
            if (line["column"], line["row"]) == (column, row):
                return _number(line)
    return "none"


def cells_changed(before: Mapping[str, str]) -> list[str]:
    """Return a line for each cell file that exists: its number ``before`` and after the call."""
    lines = []
    for path, number in before.items():
        if Path(path).exists():
            cell = read_json(path)
            ids = ", ".join(cell[key] for key in ("table", "column", "row"))
            lines.append(f"{ids}: {number} before, {_number(cell)} now  ({path})")
    return lines


def _number(cell: Mapping[str, Any]) -> str:
    """Return the number of a cell, or of its line in a table's csv, with its deviation and unit; else its status."""
    value, spread = (float(cell[key]) if cell[key] not in ("", None) else None for key in ("value", "spread"))
    unit = cell["printed_unit"]
    return f"{written(value, spread, unit)} ({unit})" if value is not None else cell["status"].replace("_", " ")
