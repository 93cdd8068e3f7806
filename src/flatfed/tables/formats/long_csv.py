"""CSV, tidy: one line per cell with every field, in stored units, for whoever computes on."""

from __future__ import annotations

import csv
import io

from flatfed.tables.blocks import Table
from flatfed.tables.compare import agreement

#: Fields copied from the cell; lists are joined with ";", what is absent stays empty.
FIELDS = (
    "metric", "unit", "printed_unit", "relative", "base", "status", "value", "spread", "n", "paper_value",
    "paper_spread", "difference", "compare", "target", "reached", "rounds", "window", "values", "base_values", "best",
    "accuracy", "seeds", "runs", "base_runs", "paper_note", "problems", "warnings", "timed",
)  # fmt: skip

#: Significant digits of a number: means of float64 have fifteen, the last of them of rounding.
DIGITS = 12

#: Those of them that are about the paper's numbers: none where none are printed.
PAPER = ("paper_value", "paper_spread", "difference", "compare", "paper_note")

#: Fields of a choice over all columns: its 95 % interval, p, and p corrected by Holm.
EFFECT = ("low", "high", "p", "p_holm", "verdict")

#: Fields of another tool's estimate, as columns ``beside_by`` and so on.
BESIDE = ("by", "value", "spread", "values", "difference", "error", "within")


def render(table: Table) -> str:
    """Return the table as CSV: table, scale, row, label, column, headers, part, ``FIELDS``, ``BESIDE``, agreement.

    Where no paper's numbers are printed, what is about them is left out. A table of effects has, in lines of the column
    "*", every choice over all columns: value, values and ``EFFECT``.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    own = [field for field in FIELDS if table.spec.printed or field not in PAPER]
    head = ["table", "scale", "row", "label", "column", "headers", "part"]
    more = [
        *(f"beside_{name}" for name in BESIDE),
        *["agreement"] * table.spec.printed,
        *(EFFECT if table.effects else ()),
    ]
    writer.writerow([*head, *own, *more])
    for column, row, cell in table.cells:
        name = [table.id, table.spec.scale, row.id, row.label, column.id, " / ".join(column.headers), column.part or ""]
        absent = {"status": "missing"}
        fields = [_field(getattr(cell, field) if cell else absent.get(field)) for field in own]
        fields += [_field(cell.beside[field] if cell and cell.beside else None) for field in BESIDE]
        writer.writerow(
            [*name, *fields, *[agreement(cell)] * table.spec.printed, *[""] * (len(EFFECT) * bool(table.effects))]
        )
    for effect in table.effects:
        name = [table.id, table.spec.scale, effect.row, effect.label, "*", "all columns", ""]
        known = {
            "relative": "difference",
            "base": effect.against,
            "printed_unit": effect.unit,
            "status": "ok",
            "value": effect.interval.mean,
            "n": len(effect.values),
            "values": list(effect.values),
        }
        found = (effect.interval.low, effect.interval.high, effect.p, effect.corrected, effect.verdict)
        fields = [_field(known.get(field)) for field in own]
        writer.writerow([*name, *fields, *[""] * (len(more) - len(EFFECT)), *map(_field, found)])
    return out.getvalue()


def _field(value: object) -> object:
    """Write None as nothing, a list as one field, and a number with the digits that are meant: no rounding of sums."""
    if isinstance(value, list):
        return ";".join(str(_field(item)) for item in value)
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return "" if value is None else value
