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
        paragraphs.append(_grid(block, table))
    paragraphs.append("\n".join(f"- {escape(note)}" for note in table.notes))
    return "\n\n".join(paragraphs) + "\n"


def escape(text: str) -> str:
    """Escape characters of Markdown's markup."""
    return SPECIAL.sub(r"\\\1", text)


def _grid(block: TableBlock, table: TypesetTable) -> str:
    """Return a block as an aligned table; the head of our number has all header levels."""
    texts = block.formatted(escape, BOLD, RAISED, table.highlighted)
    names = zip(block.parts, texts.columns, strict=True)
    heads = [(", ".join(filter(None, levels)) if part == "ours" else "", head) for part, (*levels, head) in names]
    texts.columns = ["<br>".join(filter(None, head)) for head in heads]
    texts.index.name = escape(table.shown.document.row_header)
    align = ("left", *["right"] * len(texts.columns))
    return texts.to_markdown(colalign=align, disable_numparse=True)
