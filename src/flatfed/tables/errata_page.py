"""The page of the errata."""

from __future__ import annotations

from itertools import groupby

from flatfed.plan.contradictions import Errata
from flatfed.tables import page_templates


def page(errata: Errata) -> str:
    """Return the page as HTML."""
    papers = groupby(errata.entries.items(), key=lambda item: item[1].paper)
    groups = [(paper, list(entries)) for paper, entries in papers]
    return page_templates.framed("Errata of the four papers", page_templates.filled("errata.html", groups=groups))
