"""Errata of the papers' sentences: what a text says of its tables, against the printed numbers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from flatfed.papers.errata.numbers import Numbers, named
from flatfed.papers.errata.recomputed import CHECKS, Finding, Line, check

__all__ = ["CHECKS"]  # of this file and of checks


@check
def said_in_text(numbers: Numbers, sentences: list[dict[str, Any]]) -> Finding:
    """Compare numbers in a paper's text with its table: one number, or the first minus the second.

    Each sentence has ``what``, ``said`` and ``of``, a list of one or two selections, each naming ``table`` and fields.
    """
    lines = []
    for sentence in sentences:
        rows = [numbers.one(**{**select}) for select in sentence["of"]]
        value = float(rows[0]["value"]) - (float(rows[1]["value"]) if len(rows) > 1 else 0.0)
        if abs(value - sentence["said"]) > 1e-9:
            shown = " − ".join(row["value"] for row in rows) + (f" = {value:.4g}" if len(rows) > 1 else "")
            lines.append(Line(sentence["what"], f"{sentence['said']:g}", shown))
    return Finding(tuple(lines), len(sentences), "table", "text")


@check
def slower_than(numbers: Numbers, tables: list[str], partition: str, than: dict[str, Any]) -> Finding:
    """Find algorithms that need more rounds on ``partition`` than on the harder partition ``than``."""
    lines, compared = [], 0
    for table in tables:
        for row in numbers.rows(table, metric="rounds_to_target", partition=partition):
            other = numbers.one(table, metric="rounds_to_target", algorithm=row["algorithm"], **than)
            if not row["value"] or not other["value"]:
                continue
            compared += 1
            if float(row["value"]) > float(other["value"]):
                lines.append(Line(f"{table}: {named(row)}", row["value"], f"{other['value']} ({other['partition']})"))
    return Finding(tuple(lines), compared, "the harder partition")


@check
def order_in_text(numbers: Numbers, order: list[str], columns: list[dict[str, Any]]) -> Finding:
    """Compare the order, best first, in which a text puts algorithms with the accuracies of table columns."""
    lines, compared = [], 0
    for column in columns:
        values = {name: numbers.value(**column, metric="test_accuracy", algorithm=name) for name in order}
        for better, worse in pairwise(order):
            compared += 1
            if values[better] <= values[worse]:
                where = ", ".join(str(part) for part in column.values())
                lines.append(Line(where, f"{better} > {worse}", f"{values[better]:.2f} < {values[worse]:.2f}"))
    return Finding(tuple(lines), compared, "table", "text")
