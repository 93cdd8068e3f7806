"""GitHub Markdown: one aligned table per block, with the paper's headers in the column heads."""

from __future__ import annotations

import re

from flatfed.tables.blocks import TableBlock, TypesetTable

#: Characters that start markup in a table cell.
SPECIAL = re.compile(r"([\\`*_|<\[\]~])")

#: Templates of the best mean of a column, and of the errata of a printed number.
BOLD, RAISED = "**{}**", " <sup>{}</sup>"


def render(table: TypesetTable) -> str:
    """Return the table with title, source line and notes."""
    paragraphs = [f"### {escape(table.title)}"]
    if table.subtitle:
        paragraphs.append(escape(table.subtitle) + ".")
    for block in table.blocks:
        if block.heading:
            paragraphs.append(f"**{escape(block.heading)}**")
        paragraphs.append(_grid(table.shown.document.row_header, block, table.highlighted))
    if table.warnings:
        paragraphs.append("\n".join(["> [!WARNING]", *(f"> - {escape(text)}" for text in table.warnings)]))
    paragraphs.append("\n".join(f"- {escape(note)}" for note in table.notes))
    return "\n\n".join(paragraphs) + "\n"


def escape(text: str) -> str:
    """Escape characters of Markdown's markup."""
    return SPECIAL.sub(r"\\\1", text)


def _grid(row_header: str, block: TableBlock, highlighted: str | None) -> str:
    """Return a block as an aligned table, with one row ``highlighted``."""
    head = [escape(row_header)]
    for names, under in zip(block.headers, block.under, strict=True):
        ours, *more = under.values()
        head += ["<br>".join(filter(None, map(escape, (", ".join(filter(None, names)), ours)))), *map(escape, more)]
    lines = [head]
    for label, cells in block.rows:
        parts = [(cell, part) for cell, under in zip(cells, block.under, strict=True) for part in under]
        name = f"**{escape(label)}**" if label == highlighted else escape(label)
        lines.append([name, *[cell.formatted(part, escape, BOLD, RAISED) for cell, part in parts]])
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * widths[0], *["-" * (width - 1) + ":" for width in widths[1:]]]
    aligned = [
        [line[0].ljust(widths[0]), *[t.rjust(w) for t, w in zip(line[1:], widths[1:], strict=True)]] for line in lines
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in [aligned[0], rule, *aligned[1:]])
