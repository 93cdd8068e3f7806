"""The lines at the end of a call of Snakemake: failed jobs, diverged trainings, and cells before and after."""

from __future__ import annotations

import contextlib
import csv
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flatfed.commands.status import ERROR, STOPPED, last_line
from flatfed.files import read_json
from flatfed.plan.units import written
from flatfed.runs.paths import Paths


def report(logs: str, since: float, cells: Mapping[str, str]) -> None:
    """Print what the ``logs`` written ``since`` a time say of failures, and the numbers of ``cells`` before and now."""
    for log in sorted(path for path in Path(logs).rglob("*.log") if path.stat().st_mtime >= since):
        line = last_line(log.read_text(encoding="utf-8", errors="replace"))
        if ERROR.match(line) or STOPPED.search(line) or ": diverged at round " in line:
            print(f"{log}: {line}", file=sys.stderr)
    for cell, before in cells.items():
        if Path(cell).exists():
            print(f"{cell}: {before} before, {_number(read_json(cell))} now", file=sys.stderr)


def cells_before(targets: Iterable[str], paths: Paths) -> dict[str, str]:
    """Return {cell file: its number in the present table, or "none"} for the cell files among ``targets``."""
    ids = re.escape(paths.cell("@", "@", "@", "@")).replace("@", "([^/]+)")
    matches = {target: match for target in targets if (match := re.fullmatch(ids, target))}
    numbers = dict.fromkeys(matches, "none")
    for target, match in matches.items():
        scale, table, *column_and_row = match.groups()
        with contextlib.suppress(OSError, KeyError, ValueError):  # the table is missing or damaged
            lines = csv.DictReader(Path(paths.table(scale, table)[0]).read_text(encoding="utf-8").splitlines())
            of_cell = (line for line in lines if [line["column"], line["row"]] == column_and_row)
            numbers[target] = next(map(_number, of_cell), "none")
    return numbers


def _number(cell: Mapping[str, Any]) -> str:
    """Return the number of a cell or of its CSV line, with deviation and unit, or its status."""
    value, spread = (float(cell[key]) if cell[key] not in ("", None) else None for key in ("value", "spread"))
    unit = cell["printed_unit"]
    return f"{written(value, spread, unit)} ({unit})" if value is not None else cell["status"].replace("_", " ")
