"""HTML: self-contained pages from the templates of this room, or the fragment of a table in the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from flatfed.plan.units import each_seed
from flatfed.tables.blocks import TableBlock, TypesetTable
from flatfed.tables.cells import Cell
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

#: Templates of the best mean of a column, and of the errata of a printed number.
BOLD, RAISED = "<strong>{}</strong>", "<sup>{}</sup>"

#: Cell -> the anchor of its first run on the page.
Link = Callable[[Cell], str | None]


def filled(template: str, **content: Any) -> Markup:
    """Return the ``template``, a file name without ".j2", filled with ``content``."""
    return Markup(TEMPLATES.get_template(f"{template}.j2").render(content))


def framed(title: str, body: Markup) -> str:
    """Return an HTML page around ``body``, with the common style."""
    return filled("page.html", title=title, body=body) + "\n"


def fragment(table: TypesetTable, link: Link | None = None, files: Sequence[tuple[str, str]] = ()) -> Markup:
    """Return the table as a ``<figure>``, without style; ``files``: (name, address) of the table's other files."""
    blocks = [_grid(block, table, link, f"{table.id}-{n}") for n, block in enumerate(table.blocks, 1)]
    return filled("table.html", table=table, blocks=blocks, files=files)


def render(table: TypesetTable) -> str:
    """Return the table as a page."""
    return framed(f"{table.id}: {table.title}", fragment(table))


def _grid(block: TableBlock, table: TypesetTable, link: Link | None, name: str) -> Markup:
    """Return a block as a table with the id ``name``."""
    texts = block.formatted(lambda text: str(escape(text)), BOLD, RAISED, table.highlighted)
    texts.columns.names = [*[None] * (texts.columns.nlevels - 1), str(escape(table.shown.document.row_header))]
    classes = pd.DataFrame("", texts.index, texts.columns)
    for number, part in enumerate(block.parts):
        cells = block.cells.iloc[:, number]
        classes.isetitem(number, [f"{part} {_state(part, cell)}".rstrip() for cell in cells])
        if part == "ours":
            texts.isetitem(number, [_ours(*pair, link) for pair in zip(texts.iloc[:, number], cells, strict=True)])
    style = texts.style.set_td_classes(classes).set_uuid(name)
    return Markup(style.set_caption(escape(block.heading)).to_html(cell_ids=False))


def _state(part: str, cell: Cell) -> str:
    """Return the class of the colour of a number."""
    if part == "ours":
        return cell.status
    if part == "beside":
        return "warned" * is_warned(cell)
    return agreement(cell) if part == "difference" else ""


def _ours(text: str, cell: Cell, link: Link | None) -> str:
    """Return our number with each seed's number as its title, and a link to its first run."""
    seeds = each_seed(cell.values, cell.seeds, cell.printed_unit, cell.decimals)
    anchor = link(cell) if link else None
    tag, address = ("a", Markup(' href="#{}"').format(anchor)) if anchor else ("span", "")
    title = Markup(' title="{}"').format(seeds) if seeds else ""
    return f"<{tag}{address}{title}>{text}</{tag}>" if address or title else text
