"""HTML: a self-contained page, or the bare fragment that the report puts between others. Light and dark."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from flatfed.tables.blocks import Texts, TypesetTable
from flatfed.tables.page_templates import filled, framed, script


def fragment(
    table: TypesetTable, links: Callable[[Texts], list[str]] | None = None, files: Sequence[tuple[str, str]] = ()
) -> Markup:
    """Return the table as a ``<figure>``, without style.

    ``links`` gives the ids of the places on the page that tell of a number's runs, none of a number that has none, and
    ``files`` are (name, address) of the table's other files, for a page that has them.
    """
    return filled("table.html", table=table, links=links, files=files)


def render(table: TypesetTable) -> str:
    """Return the table as a page of its own."""
    return framed(f"{table.id}: {table.title}", fragment(table) + script("table.js"))
