"""Pages from the templates of this room: self-contained HTML, Markdown and text."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from flatfed.tables.formats import markdown


@cache
def _environment() -> Environment:
    """Return the Jinja environment; it escapes all text in HTML, and the input of the filter ``markdown``."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["markdown"] = markdown.escape
    return environment


def filled(template: str, **content: Any) -> Markup:
    """Return the ``template``, a file name without ".j2", filled with ``content``."""
    return Markup(_environment().get_template(f"{template}.j2").render(content))


def framed(title: str, body: Markup) -> str:
    """Return an HTML page around ``body``, with the common style and script."""
    return filled("page.html", title=title, body=body) + "\n"


def page(name: str, suffix: str, **content: Any) -> str:
    """Return the page ``name`` in the format of ``suffix``; ``content`` includes its ``title``."""
    text = filled(name + suffix, **content)
    return framed(content["title"], text) if suffix == ".html" else text.rstrip() + "\n"
