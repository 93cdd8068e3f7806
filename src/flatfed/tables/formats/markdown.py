"""Markdown as GitHub reads it: one table per block, the paper's headers in the column heads, aligned in the source."""

from __future__ import annotations

import re

from flatfed.tables.blocks import Block, Entry, TypesetTable

#: Characters that would start markup inside a table cell.
SPECIAL = re.compile(r"([\\`*_|<\[\]~])")

#: What stands around a marked number.
MARKS = {"best": "**", "second": "*"}


def render(table: TypesetTable) -> str:
    """Return the table with title, source line and notes."""
    parts = [f"### {escape(table.title)}"]
    if table.subtitle:
        parts.append(escape(table.subtitle) + ".")
    for block in table.blocks:
        if block.heading:
            parts.append(f"**{escape(block.heading)}**")
        parts.append(_grid(table, block))
    if table.warnings:
        parts.append("\n".join(["> [!WARNING]", *(f"> - {escape(text)}" for text in table.warnings)]))
    parts.append("\n".join(f"- {escape(note)}" for note in table.notes))
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Escape what Markdown would take for markup."""
    return SPECIAL.sub(r"\\\1", text)


def _grid(table: TypesetTable, block: Block) -> str:
    """Return the block as an aligned table."""
    names = [[header.text for header in level for _ in range(header.span)] for level in block.headers]
    head = [escape(table.spec.row_header)]
    for number, (under, beside) in enumerate(zip(block.under, block.beside, strict=True)):
        title = ", ".join(level[number] for level in names if level[number])
        words = [*([beside] if beside else []), *under[1:]]
        head += ["<br>".join(filter(None, map(escape, (title, under[0])))), *map(escape, words)]
    lines = [head]
    for label, entries in block.rows:
        texts = [_texts(entry, beside, table.numbers) for entry, beside in zip(entries, block.beside, strict=True)]
        lines.append([escape(label), *[text for few in texts for text in few]])
    widths = [max(3, *(len(line[place]) for line in lines)) for place in range(len(head))]
    rule = ["-" * widths[0], *["-" * (width - 1) + ":" for width in widths[1:]]]
    aligned = [
        [line[0].ljust(widths[0]), *[t.rjust(w) for t, w in zip(line[1:], widths[1:], strict=True)]] for line in lines
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in [aligned[0], rule, *aligned[1:]])


def _texts(entry: Entry, beside: str, numbers: int) -> list[str]:
    """Return a cell's one to four texts; the best of a column is bold, the second italic."""
    marks = f" <sup>{','.join(entry.marks)}</sup>" if entry.marks else ""
    around = MARKS.get(entry.rank, "")
    texts = [f"{around}{escape(entry.ours)}{around}", escape(entry.paper) + marks, escape(entry.difference)][:numbers]
    return [texts[0], *([escape(entry.beside)] if beside else []), *texts[1:]]
