"""Self-contained HTML pages from the templates of this room."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup


@cache
def _environment() -> Environment:
    """Return the Jinja environment; it escapes all text."""
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def filled(template: str, **content: Any) -> Markup:
    """Return the ``template``, a file name without ".j2", filled with ``content``."""
    return Markup(_environment().get_template(f"{template}.j2").render(content))


def framed(title: str, body: Markup) -> str:
    """Return an HTML page around ``body``, with the common style and script."""
    return filled("page.html", title=title, body=body) + "\n"
