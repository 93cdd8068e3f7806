"""A table in four formats: what the paper's reader knows, with our number beside the printed one.

``<table>.csv`` has a line for each cell, with every field; ``.tex`` is a bare ``tabular`` for ``\\input``, with the
rules of booktabs; ``.html`` is self-contained. A cell without a number is empty and counted under the table.
"""

from __future__ import annotations

from pathlib import Path

from flatfed.files import write_whole
from flatfed.tables.blocks import TypesetTable
from flatfed.tables.formats import html, latex, long_csv, markdown

#: File name suffix -> function that renders a table.
FORMATS = {"csv": long_csv.render, "md": markdown.render, "tex": latex.render, "html": html.render}


def make(table: TypesetTable, out_dir: str | Path) -> None:
    """Write ``table`` into ``out_dir`` in every format, each file whole."""
    for suffix, render in FORMATS.items():
        with write_whole(Path(out_dir) / f"{table.id}.{suffix}", "w") as file:
            file.write(render(table))
