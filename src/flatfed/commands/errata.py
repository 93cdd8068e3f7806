"""``flatfed errata``: the papers' own contradictions."""

from __future__ import annotations

import argparse
from functools import partial

from flatfed.commands import text_page
from flatfed.commands.configuration import HOME
from flatfed.papers.errata import Errata
from flatfed.tables import errata_page

DETAIL = """\
Every entry of config/errata.yaml, with the printed numbers of config/reference that contradict each other:
tables that disagree, errors that are not train minus test, means that are not those of their cells."""
EXAMPLE = "python -m flatfed errata --out results/errata.html"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    text_page.add_out(sub)


def run(options: argparse.Namespace) -> None:
    """Write the page of the errata to a file, Markdown or HTML by its suffix, or print it as Markdown.

    :raises ConfigError: config/errata.yaml is malformed.
    """
    text_page.put(options.out, partial(errata_page.page, Errata(HOME)))
