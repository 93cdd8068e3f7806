"""Markdown as GitHub reads it: one table per block, the paper's headers in the column heads, aligned in the source."""

from __future__ import annotations

import re

from flatfed.tables.blocks import TableBlock, TypesetTable

#: Characters that would start markup inside a table cell.
SPECIAL = re.compile(r"([\\`*_|<\[\]~])")

#: A marked number, and the errata behind a printed one.
RANKS, RAISED = {"best": "**{}**", "second": "*{}*"}, " <sup>{}</sup>"


def render(table: TypesetTable) -> str:
    """Return the table with title, source line and notes."""
    parts = [f"### {escape(table.title)}"]
    if table.subtitle:
        parts.append(escape(table.subtitle) + ".")
    for block in table.blocks:
        if block.heading:
            parts.append(f"**{escape(block.heading)}**")
        parts.append(_grid(table.spec.row_header, block))
    if table.warnings:
        parts.append("\n".join(["> [!WARNING]", *(f"> - {escape(text)}" for text in table.warnings)]))
    parts.append("\n".join(f"- {escape(note)}" for note in table.notes))
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Escape what Markdown would take for markup."""
    return SPECIAL.sub(r"\\\1", text)


def _grid(row_header: str, block: TableBlock) -> str:
    """Return the block as an aligned table."""
    names = [[header.text for header in level for _ in range(header.span)] for level in block.headers]
    head = [escape(row_header)]
    for number, under in enumerate(block.under):
        title = ", ".join(level[number] for level in names if level[number])
        ours, *others = under.values()
        head += ["<br>".join(filter(None, map(escape, (title, ours)))), *map(escape, others)]
    lines = [head]
    for label, cells in block.rows:
        parts = [(texts, part) for texts, under in zip(cells, block.under, strict=True) for part in under]
        lines.append([escape(label), *[texts.part(part, escape, RANKS, RAISED) for texts, part in parts]])
    widths = [max(3, *(len(line[place]) for line in lines)) for place in range(len(head))]
    rule = ["-" * widths[0], *["-" * (width - 1) + ":" for width in widths[1:]]]
    aligned = [
        [line[0].ljust(widths[0]), *[t.rjust(w) for t, w in zip(line[1:], widths[1:], strict=True)]] for line in lines
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in [aligned[0], rule, *aligned[1:]])
