"""The formats of a table: one file each, one function ``render(table) -> str``, one entry here."""

from __future__ import annotations

from flatfed.tables.formats import html, latex, long_csv, markdown

#: File name suffix -> render function.
FORMATS = {"csv": long_csv.render, "md": markdown.render, "tex": latex.render, "html": html.render}
