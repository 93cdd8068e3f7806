"""``flatfed errata``: the papers' own contradictions.

Every entry of config/errata.yaml, with the printed numbers of config/reference that contradict each other:
tables that disagree, errors that are not train minus test, means that are not those of their cells.

example:
  python -m flatfed errata --out results/errata.html
"""

from __future__ import annotations

import argparse
import contextlib
import sys

from flatfed.commands import kinds
from flatfed.commands.arguments import argument
from flatfed.commands.configuration import HOME
from flatfed.files import write_whole
from flatfed.papers.errata import Errata
from flatfed.tables import errata_page

ARGUMENTS = [argument("--out", kinds.ending(".md", ".html"), "write a page instead of text", metavar="FILE")]


def run(options: argparse.Namespace) -> None:
    """Write the page of the errata to a file, Markdown or HTML by its suffix, or print it as text for 80 columns.

    :raises ConfigError: config/errata.yaml is malformed.
    """
    page = errata_page.page(Errata(HOME), options.out.suffix if options.out else ".txt")
    with contextlib.nullcontext(sys.stdout) if options.out is None else write_whole(options.out, "w") as file:
        file.write(page)
