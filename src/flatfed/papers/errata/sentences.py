"""Errata of the papers' sentences: what a text says of its tables, against the printed numbers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from flatfed.papers.errata.numbers import Numbers, subject
from flatfed.papers.errata.recomputed import CHECKS, Finding, check

__all__ = ["CHECKS"]  # those of this file are entered beside those of recomputed.py


@check
def said_in_text(numbers: Numbers, sentences: list[dict[str, Any]]) -> Finding:
    """Compare numbers in a paper's text with its table: one number, or the first minus the second.

    Each sentence has ``what``, ``said`` and ``of``, a list of one or two selections, each naming ``table`` and fields.
    """
    finding = Finding("table", "text")
    for sentence in sentences:
        lines = [numbers.line(**selection) for selection in sentence["of"]]
        value = lines[0].number - (lines[1].number if len(lines) > 1 else 0.0)
        shown = " − ".join(line.value for line in lines) + (f" = {value:.4g}" if len(lines) > 1 else "")
        fits = abs(value - sentence["said"]) <= 1e-9
        finding.compare(fits, sentence["what"], f"{sentence['said']:g}", shown)
    return finding


@check
def slower_than(numbers: Numbers, tables: list[str], partition: str, than: dict[str, Any]) -> Finding:
    """Find algorithms that need more rounds on ``partition`` than on the harder partition ``than``."""
    finding = Finding("the harder partition")
    for table in tables:
        for line in numbers.lines(table, metric="rounds_to_target", partition=partition):
            other = numbers.line(table, metric="rounds_to_target", algorithm=line.algorithm, **than)
            if line.value and other.value:
                against = f"{other.value} ({other.partition})"
                finding.compare(line.number <= other.number, f"{table}: {subject(line)}", line.value, against)
    return finding


@check
def order_in_text(numbers: Numbers, order: list[str], columns: list[dict[str, Any]]) -> Finding:
    """Compare the order, best first, in which a text puts algorithms with the accuracies of table columns."""
    finding = Finding("table", "text")
    for column in columns:
        where = ", ".join(str(part) for part in column.values())
        values = {name: numbers.number(**column, metric="test_accuracy", algorithm=name) for name in order}
        for better, worse in pairwise(order):
            fits, against = values[better] > values[worse], f"{values[better]:.2f} < {values[worse]:.2f}"
            finding.compare(fits, where, f"{better} > {worse}", against)
    return finding
