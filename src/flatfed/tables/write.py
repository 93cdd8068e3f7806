"""Writes a table in four formats, and the content of a cell.

``.csv`` has a line per cell with every field, in stored units; ``.tex`` is a bare ``tabular`` with booktabs rules, for
``\\input``; ``.html`` is self-contained.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from flatfed.files import write_whole
from flatfed.tables.blocks import TypesetTable
from flatfed.tables.cells import Cell
from flatfed.tables.compare import agreement
from flatfed.tables.formats import html, latex, markdown

#: Fields of the cell and of its row and column; lists are joined with ";", None is empty.
FIELDS = (
    "table", "scale", "row", "label", "column", "headers", "part", "metric", "unit", "printed_unit", "relative",
    "base", "status", "value", "spread", "n", "paper_value", "paper_spread", "difference", "compare", "target",
    "reached", "rounds", "window", "values", "base_values", "best", "accuracy", "seeds", "runs", "base_runs",
    "paper_note", "problems", "warnings", "timed",
)  # fmt: skip

#: Significant digits; the last of float64's 15 are rounding errors.
DIGITS = 12

#: Columns of tables with printed numbers; empty in a preview.
PAPER = ("paper_value", "paper_spread", "difference", "compare", "paper_note", "agreement")

#: Fields of another tool's estimate, as columns ``beside_by`` and so on.
BESIDE = ("by", "value", "spread", "values", "difference", "error", "within")


def make(table: TypesetTable, out_dir: str | Path) -> list[Path]:
    """Write ``table`` into ``out_dir`` in every format, return the files; a failure leaves no partial file."""
    texts = {"csv": _csv, "md": markdown.render, "tex": latex.render, "html": html.render}
    paths = [Path(out_dir) / f"{table.id}.{suffix}" for suffix in texts]
    for path, render in zip(paths, texts.values(), strict=True):
        with write_whole(path, "w") as file:
            file.write(render(table))
    return paths


def content(cell: Cell) -> dict[str, Any]:
    """Return the content of a cell's file, and of its line in a table's .csv, in stored units."""
    number, (paper_value, paper_spread) = cell.number, cell.paper
    names = ("table", "column", "row", "scale", "metric", "relative", "base", "target", "window", "accuracy")
    own = ("unit", "status", "value", "spread", "n", "values", "base_values", "best", "reached", "rounds", "seeds")
    own += ("absent", "runs", "base_runs", "difference", "problems", "warnings", "timed")
    return {
        **{name: getattr(number, name) for name in names},
        "compare": cell.document.compare,
        **{name: getattr(cell, name) for name in own},
        "printed_unit": cell.printed_unit,
        "spread_kind": "seeds",
        "paper_value": paper_value,
        "paper_spread": paper_spread,
        "paper_note": cell.paper_note,
    }


def _csv(table: TypesetTable) -> str:
    """Return the table as CSV."""
    columns = [*FIELDS, *(f"beside_{name}" for name in BESIDE), "agreement"]
    columns = [name for name in columns if table.shown.document.reference != "none" or name not in PAPER]
    lines = []
    for column, row, cell in table.labelled_cells:
        line = {**content(cell), "label": row.label, "headers": " / ".join(column.headers), "part": column.part}
        line |= {f"beside_{name}": getattr(cell.beside, name, None) for name in BESIDE}
        lines.append(line | {"agreement": agreement(cell)})
    return pd.DataFrame(lines, columns=columns, dtype=object).map(_field).to_csv(index=False, lineterminator="\n")


def _field(value: object) -> object:
    if isinstance(value, list):
        return ";".join(str(_field(item)) for item in value)
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return "" if value is None else value
