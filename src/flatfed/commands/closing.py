"""The lines at the end of a call of Snakemake: failed jobs, diverged trainings, and cells before and after."""

from __future__ import annotations

import contextlib
import csv
import re
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flatfed.commands.status import ERROR, STOPPED, last_line
from flatfed.files import read_json
from flatfed.plan.units import written
from flatfed.runs.paths import Paths


class Call:
    """A call of Snakemake that began now."""

    def __init__(self, paths: Paths):
        self.paths, self.began = paths, time.time()
        self.cells: dict[str, str] = {}

    def note_cells(self, targets: Iterable[str]) -> None:
        """Keep the numbers that the present tables have for the cell files among ``targets``, or "none"."""
        ids = re.escape(self.paths.cell("@", "@", "@", "@")).replace("@", "([^/]+)")
        for target, match in ((target, re.fullmatch(ids, target)) for target in targets):
            if match:
                scale, table, *column_and_row = match.groups()
                self.cells[target] = "none"
                with contextlib.suppress(OSError, KeyError, ValueError):  # the table is missing or damaged
                    text = Path(self.paths.table(scale, table)[0]).read_text(encoding="utf-8")
                    lines = csv.DictReader(text.splitlines())
                    of_cell = (line for line in lines if [line["column"], line["row"]] == column_and_row)
                    self.cells[target] = next(map(_number, of_cell), "none")

    def report(self) -> None:
        """Print the last line of each log since then with a failure or divergence, and the cells before and now."""
        for log in sorted(path for path in Path(self.paths.logs).rglob("*.log") if path.stat().st_mtime >= self.began):
            line = last_line(log.read_text(encoding="utf-8", errors="replace"))
            if ERROR.match(line) or STOPPED.search(line) or ": diverged at round " in line:
                print(f"{log}: {line}", file=sys.stderr)
        for cell, before in self.cells.items():
            if Path(cell).exists():
                print(f"{cell}: {before} before, {_number(read_json(cell))} now", file=sys.stderr)


def _number(cell: Mapping[str, Any]) -> str:
    """Return the number of a cell or of its CSV line, with deviation and unit, or its status."""
    value, spread = (float(cell[key]) if cell[key] not in ("", None) else None for key in ("value", "spread"))
    unit = cell["printed_unit"]
    return f"{written(value, spread, unit)} ({unit})" if value is not None else cell["status"].replace("_", " ")
