"""``flatfed errata``.

Writes a page: the entries of config/errata.yaml and the contradicting numbers of config/reference (different tables,
errors that differ from train minus test, means that differ from those of their cells).

example:
  python -m flatfed errata
"""

from __future__ import annotations

import argparse
from pathlib import Path

from flatfed.commands import arguments, configuration, kinds
from flatfed.commands.arguments import argument
from flatfed.files import write_whole
from flatfed.plan.contradictions import Errata
from flatfed.runs.paths import DEFAULT
from flatfed.tables import errata_page

ARGUMENTS = [
    argument("--out", kinds.ending(".html"), "the page", metavar="FILE", default=Path(DEFAULT.errata)),
    arguments.SEAL,
]


def run(options: argparse.Namespace) -> None:
    """Write the page; ConfigError if the errata are malformed."""
    page = errata_page.page(Errata(configuration.HOME))
    with write_whole(options.out, "w") as file:
        file.write(page)
    configuration.seal(options, [options.out])
    print(options.out)
