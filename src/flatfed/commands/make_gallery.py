"""``flatfed gallery``: all figures of a folder on one picture."""

from __future__ import annotations

import argparse

from flatfed.commands import kinds

DETAIL = "Each figure stands under its name. `make figures-page` calls it for docs/figures.png."
EXAMPLE = "python -m flatfed gallery results/preview/figures --out figures.png"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    sub.add_argument("folder", type=kinds.folder, metavar="DIR", help="folder of figures")
    sub.add_argument("--head", default="", metavar="TEXT", help="a line above all of them")
    sub.add_argument("--out", type=kinds.ending(".png"), required=True, metavar="FILE", help="PNG to write")


def run(options: argparse.Namespace) -> None:
    """Draw the picture."""
    from flatfed.figures import gallery

    gallery.make(options.folder, options.out, options.head)
