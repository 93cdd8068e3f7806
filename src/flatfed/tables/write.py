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


def make(table: TypesetTable, out_dir: str | Path) -> list[Path]:
    """Write ``table`` into ``out_dir`` in every format, return the files; a failure leaves no partial file."""
    paths = [Path(out_dir) / f"{table.id}.{suffix}" for suffix in FORMATS]
    for path, render in zip(paths, FORMATS.values(), strict=True):
        with write_whole(path, "w") as file:
            file.write(render(table))
    return paths
