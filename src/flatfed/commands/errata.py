"""``flatfed errata``.

Writes a page: the entries of config/errata.yaml and the contradicting numbers of config/reference (different tables,
errors that differ from train minus test, means that differ from those of their cells).

example:
  python -m flatfed errata
"""

from __future__ import annotations

import argparse
from itertools import groupby
from pathlib import Path

from flatfed.commands import arguments, configuration
from flatfed.commands.arguments import argument
from flatfed.files import write_whole
from flatfed.plan.reference import Errata
from flatfed.runs.paths import DEFAULT
from flatfed.tables.formats import html

ARGUMENTS = [
    argument("--out", arguments.ending(".html"), "the page", metavar="FILE", default=Path(DEFAULT.errata)),
]


def run(options: argparse.Namespace) -> None:
    """Write the page; ConfigError if the errata are malformed."""
    entries = Errata(configuration.HOME).entries.items()
    papers = [(paper, list(of_paper)) for paper, of_paper in groupby(entries, key=lambda item: item[1].paper)]
    page = html.framed("Errata of the four papers", html.filled("errata.html", groups=papers))
    with write_whole(options.out, "w") as file:
        file.write(page)
    print(options.out)
