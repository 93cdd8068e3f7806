"""A page that a sub-command prints as Markdown, or writes to a file as Markdown or HTML."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from flatfed.commands import kinds
from flatfed.files import write_whole

Content = TypeVar("Content")


def add_out(sub: argparse.ArgumentParser) -> None:
    """Add ``--out``."""
    meaning = "write a .md or .html file instead of printing Markdown"
    sub.add_argument("--out", type=kinds.ending(".md", ".html"), metavar="FILE", help=meaning)


def put(out: Path | None, formats: Mapping[str, Callable[[Content], str]], content: Content) -> None:
    """Write ``content`` to the file ``out``, in the format of its suffix, or print it as Markdown."""
    if out is None:
        sys.stdout.write(formats[".md"](content))
        return
    with write_whole(out, "w") as file:
        file.write(formats[out.suffix](content))
