"""HTML: self-contained pages from the templates of this room, or the fragment of a table in the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from flatfed.tables.blocks import CellText, TypesetTable
from flatfed.tables.compare import agreement
from flatfed.tables.notes import is_warned

#: The Jinja environment; it escapes all text.
TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parents[1] / "templates"),
    autoescape=select_autoescape(["html.j2"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def filled(template: str, **content: Any) -> Markup:
    """Return the ``template``, a file name without ".j2", filled with ``content``."""
    return Markup(TEMPLATES.get_template(f"{template}.j2").render(content))


def framed(title: str, body: Markup) -> str:
    """Return an HTML page around ``body``, with the common style and script."""
    return filled("page.html", title=title, body=body) + "\n"


def fragment(
    table: TypesetTable, link: Callable[[CellText], str | None] | None = None, files: Sequence[tuple[str, str]] = ()
) -> Markup:
    """Return the table as a ``<figure>``, without style.

    ``link``: cell -> the anchor of its first run on the page. ``files``: (name, address) of the table's other files.
    """
    judges = {"agreement": agreement, "is_warned": is_warned}
    return filled("table.html", table=table, link=link, files=files, **judges)


def render(table: TypesetTable) -> str:
    """Return the table as a page."""
    return framed(f"{table.id}: {table.title}", fragment(table))
