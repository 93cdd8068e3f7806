"""``flatfed errata``: the papers' own contradictions, recomputed."""

from __future__ import annotations

import argparse
import sys

from flatfed.commands import kinds
from flatfed.commands.configuration import HOME
from flatfed.errors import DataError, unknown
from flatfed.files import write_whole
from flatfed.papers.errata import Errata
from flatfed.tables import errata_page

DETAIL = """\
Every entry of config/errata.yaml, with what its check finds in the printed numbers of config/reference:
tables that disagree, errors that are not train minus test, means that are not those of their cells."""
EXAMPLE = "python -m flatfed errata --out results/errata.html"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    sub.add_argument(
        "--out", type=kinds.file, metavar="FILE", help="write a .md or .html file instead of printing Markdown"
    )


def run(options: argparse.Namespace) -> None:
    """Write the page of the errata to a file, Markdown or HTML by its suffix, or print it as Markdown.

    :raises ConfigError: config/errata.yaml is malformed.
    :raises DataError: the suffix is another one.
    """
    errata, out = Errata(HOME), options.out
    if out is None:
        sys.stdout.write(errata_page.markdown(errata))
        return
    if out.suffix not in errata_page.FORMATS:
        raise DataError(unknown("suffix", out.suffix, errata_page.FORMATS, str(out)))
    text = errata_page.FORMATS[out.suffix](errata)
    with write_whole(out, "w") as file:
        file.write(text)
