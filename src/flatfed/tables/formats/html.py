"""HTML: a self-contained page, or the bare fragment that the report puts between others. Light and dark."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from flatfed.tables.layout import Table

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


def fragment(table: Table) -> Markup:
    """Return the table as a ``<figure>``, without style."""
    return Markup(environment().get_template("table.html.j2").render(table=table))


def style() -> Markup:
    """Return the style sheet that pages of this package share."""
    return Markup((TEMPLATES / "style.css").read_text(encoding="utf-8"))


def render(table: Table) -> str:
    """Return the table as a page of its own."""
    page = environment().get_template("page.html.j2")
    return page.render(title=f"{table.id}: {table.title}", style=style(), body=fragment(table)) + "\n"
