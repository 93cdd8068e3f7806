"""HTML: a self-contained page, or the bare fragment that the report puts between others. Light and dark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from flatfed.tables.blocks import Entry, Table

TEMPLATES = Path(__file__).parents[1] / "templates"


@cache
def environment() -> Environment:
    """Return the Jinja environment of the package: everything is escaped, an unknown name is an error."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def fragment(
    table: Table, links: Callable[[Entry], list[str]] | None = None, files: Sequence[tuple[str, str]] = ()
) -> Markup:
    """Return the table as a ``<figure>``, without style.

    ``links`` gives the ids of the places on the page that tell of a number's runs, none of a number that has none, and
    ``files`` are (name, address) of the table's other files, for a page that has them.
    """
    return Markup(environment().get_template("table.html.j2").render(table=table, links=links, files=files))


def script(name: str) -> Markup:
    """Return a script of the package's as an element of a page."""
    return Markup("<script>\n{}</script>").format(Markup((TEMPLATES / name).read_text(encoding="utf-8")))


def style() -> Markup:
    """Return the style sheet that pages of this package share."""
    return Markup((TEMPLATES / "style.css").read_text(encoding="utf-8"))


def render(table: Table) -> str:
    """Return the table as a page of its own."""
    page = environment().get_template("page.html.j2")
    return (
        page.render(title=f"{table.id}: {table.title}", style=style(), body=fragment(table) + script("table.js")) + "\n"
    )
