"""A page that a sub-command prints as Markdown, or writes to a file as Markdown or HTML."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from flatfed.commands import kinds
from flatfed.files import write_whole


def add_out(sub: argparse.ArgumentParser) -> None:
    """Add ``--out``."""
    meaning = "write a .md or .html file instead of printing Markdown"
    sub.add_argument("--out", type=kinds.ending(".md", ".html"), metavar="FILE", help=meaning)


def put(out: Path | None, page_as: Callable[[str], str]) -> None:
    """Write what ``page_as`` makes of a suffix to the file ``out``, by its suffix, or print it as Markdown."""
    if out is None:
        sys.stdout.write(page_as(".md"))
        return
    with write_whole(out, "w") as file:
        file.write(page_as(out.suffix))
