"""Writes a table in four formats.

``.csv`` has a line per cell with every field; ``.tex`` is a bare ``tabular`` with booktabs rules, for ``\\input``;
``.html`` is self-contained.
"""

from __future__ import annotations

from pathlib import Path

from flatfed.files import write_whole
from flatfed.tables.blocks import TypesetTable
from flatfed.tables.formats import html, latex, long_csv, markdown

#: File name suffix -> function that renders a table.
FORMATS = {"csv": long_csv.render, "md": markdown.render, "tex": latex.render, "html": html.render}


def make(table: TypesetTable, out_dir: str | Path) -> None:
    """Write ``table`` into ``out_dir`` in every format; a failure leaves no partial file."""
    for suffix, render in FORMATS.items():
        with write_whole(Path(out_dir) / f"{table.id}.{suffix}", "w") as file:
            file.write(render(table))
