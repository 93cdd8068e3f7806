"""``flatfed errata``.

Shows the entries of config/errata.yaml with the contradicting numbers of config/reference: different tables, errors
that differ from train minus test, means that differ from those of their cells.

example:
  python -m flatfed errata --out results/errata.html
"""

from __future__ import annotations

import argparse
import contextlib
import sys

from flatfed.commands import arguments, configuration, kinds
from flatfed.commands.arguments import argument
from flatfed.files import write_whole
from flatfed.papers.errata import Errata
from flatfed.tables import errata_page

ARGUMENTS = [
    argument("--out", kinds.ending(".md", ".html"), "write a page instead of text", metavar="FILE"),
    arguments.SEAL,
]


def run(options: argparse.Namespace) -> None:
    """Write the errata as Markdown or HTML, or print them as text for 80 columns; ConfigError if they are malformed."""
    page = errata_page.page(Errata(configuration.HOME), options.out.suffix if options.out else ".txt")
    with contextlib.nullcontext(sys.stdout) if options.out is None else write_whole(options.out, "w") as file:
        file.write(page)
    if options.out:
        configuration.seal(options, options.out)
