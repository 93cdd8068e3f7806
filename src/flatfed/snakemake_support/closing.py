"""The summary after Snakemake has ended: failed jobs, diverged trainings, cells before and after."""

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
from flatfed.plan.units import written
from flatfed.runs import record as records
from flatfed.runs.paths import Paths

MOST = 10  # listed jobs
SILENT = "no message: killed, out of memory, or a full disk?"


def brief(formatter: logging.Formatter) -> None:
    """Make Snakemake's ``formatter`` omit the commands of failed jobs, long JSON."""
    format_record, messages = formatter.format, {}

    def text(record: logging.LogRecord) -> str:
        match vars(record):
            case {"event": "job_info", "jobid": job, "rule_msg": message}:
                messages[job] = message
            case {"event": "job_error", "jobid": job} as about:
                texts = dict.fromkeys(("msg", "rule_msg"), messages.get(job))
                record = logging.makeLogRecord({**about, **texts, "input": None, "output": None, "shellcmd": None})
            case {"event": "error", "msg": str(words)} if "\nCalledProcessError in file" in words:
                return ""  # repeats the command
        return format_record(record)

    formatter.format = text


def failed(logs: Iterable[str]) -> list[str]:
    """Return "log: its last line" for the ``logs`` of failed jobs."""
    texts = {log: Path(log).read_text(encoding="utf-8", errors="replace") for log in logs if Path(log).is_file()}
    return [f"{log}: {last_line(texts.get(log, '')) or SILENT}" for log in logs]


def diverged(run_files: Iterable[Path]) -> list[str]:
    """Return "folder: diverged in round r" for each diverged run among ``run_files``, the run.json of the jobs."""
    lines = []
    for path in run_files:
        with contextlib.suppress(OSError, DataError):  # `failed` reports it
            if (last_round := records.read(path).diverged_at) is not None:
                lines.append(f"{path.parent}: diverged in round {last_round}; tables report it")
    return lines


def say(title: str, lines: list[str]) -> None:
    """Print ``title`` and the first :data:`MOST` ``lines``, if any, to stderr."""
    if lines:
        more = [f"and {len(lines) - MOST} more"] if len(lines) > MOST else []
        print("\n".join([title, *(f"  {line}" for line in [*lines[:MOST], *more])]), file=sys.stderr)


def last_line(log: str) -> str:
    """Return the last line of the text ``log``; updates of a progress bar count as lines."""
    return re.split(r"[\r\n]+", log.strip())[-1].strip()


def cells_before(targets: Iterable[str], paths: Paths) -> dict[str, str]:
    """Return {cell file: its number in the present table, or "none"} for the cell files among ``targets``."""
    ids = re.escape(paths.cell("@", "@", "@", "@")).replace("@", "([^/]+)")
    numbers = {}
    for target, match in ((target, re.fullmatch(ids, target)) for target in targets):
        if match:
            scale, table, *column_and_row = match.groups()
            numbers[target] = "none"
            with contextlib.suppress(OSError, KeyError, ValueError):  # the table is missing or damaged
                lines = csv.DictReader(Path(paths.table(scale, table)[0]).read_text(encoding="utf-8").splitlines())
                of_cell = (line for line in lines if [line["column"], line["row"]] == column_and_row)
                numbers[target] = next(map(_number, of_cell), "none")
    return numbers


def cells_changed(before: Mapping[str, str]) -> list[str]:
    """Return a line with old and new number for each existing cell file of ``before``."""
    lines = []
    for path, number in before.items():
        if Path(path).exists():
            cell = read_json(path)
            ids = ", ".join(cell[key] for key in ("table", "column", "row"))
            lines.append(f"{ids}: {number} before, {_number(cell)} now  ({path})")
    return lines


def _number(cell: Mapping[str, Any]) -> str:
    """Return the number of a cell or of its CSV line, with deviation and unit, or its status."""
    value, spread = (float(cell[key]) if cell[key] not in ("", None) else None for key in ("value", "spread"))
    unit = cell["printed_unit"]
    return f"{written(value, spread, unit)} ({unit})" if value is not None else cell["status"].replace("_", " ")
