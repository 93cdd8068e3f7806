"""CSV, tidy: one line per cell with every field, in stored units, for whoever computes on."""

from __future__ import annotations

import csv
import io

from flatfed.tables.blocks import TypesetTable
from flatfed.tables.compare import agreement

#: What a line is of.
PLACE = ("table", "scale", "row", "label", "column", "headers", "part")

#: Fields copied from the cell; lists are joined with ";", what is absent stays empty.
FIELDS = (
    "metric", "unit", "printed_unit", "relative", "base", "status", "value", "spread", "n", "paper_value",
    "paper_spread", "difference", "compare", "target", "reached", "rounds", "window", "values", "base_values", "best",
    "accuracy", "seeds", "runs", "base_runs", "paper_note", "problems", "warnings", "timed",
)  # fmt: skip

#: Significant digits of a number: means of float64 have fifteen, the last of them of rounding.
DIGITS = 12

#: Columns that are about the paper's numbers: none where none are printed.
PAPER = ("paper_value", "paper_spread", "difference", "compare", "paper_note", "agreement")

#: Fields of another tool's estimate, as columns ``beside_by`` and so on.
BESIDE = ("by", "value", "spread", "values", "difference", "error", "within")


def render(table: TypesetTable) -> str:
    """Return the table as CSV: ``PLACE``, ``FIELDS``, ``BESIDE``, agreement.

    Where no paper's numbers are printed, what is about them is left out.
    """
    left_out = () if table.spec.printed else PAPER
    columns = [*PLACE, *FIELDS, *(f"beside_{name}" for name in BESIDE), "agreement"]
    out = io.StringIO()
    writer = csv.DictWriter(
        out, [name for name in columns if name not in left_out], extrasaction="ignore", lineterminator="\n"
    )
    writer.writeheader()
    named = {"table": table.id, "scale": table.spec.scale}
    for column, row, cell in table.cells:
        line = {**named, "row": row.id, "label": row.label, "column": column.id, "headers": " / ".join(column.headers)}
        line |= {"part": column.part, "agreement": agreement(cell)}
        line |= {name: getattr(cell, name) for name in FIELDS}
        line |= {f"beside_{name}": getattr(cell.beside, name, None) for name in BESIDE}
        writer.writerow({name: _field(value) for name, value in line.items()})
    return out.getvalue()


def _field(value: object) -> object:
    """Write None as nothing, a list as one field, and a number with the digits that are meant: no rounding of sums."""
    if isinstance(value, list):
        return ";".join(str(_field(item)) for item in value)
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return "" if value is None else value
