"""HTML: a self-contained page, or the fragment of a table in the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from flatfed.tables.blocks import CellText, TypesetTable
from flatfed.tables.page_templates import filled, framed


def fragment(
    table: TypesetTable, links: Callable[[CellText], list[str]] | None = None, files: Sequence[tuple[str, str]] = ()
) -> Markup:
    """Return the table as a ``<figure>``, without style.

    ``links``: cell -> anchors of its runs on the page. ``files``: (name, address) of the table's other files.
    """
    return filled("table.html", table=table, links=links, files=files)


def render(table: TypesetTable) -> str:
    """Return the table as a page."""
    return framed(f"{table.id}: {table.title}", fragment(table))
