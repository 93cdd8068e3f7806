"""The page of the errata."""

from __future__ import annotations

from itertools import groupby

from flatfed.config.erratum import Finding
from flatfed.papers.errata import Errata
from flatfed.tables import page_templates

ABOUT = (
    "Contradictions in the papers. FlatFed does not correct the printed numbers. It recomputes them where it can and "
    "lists those that do not fit."
)

#: Paper id -> reference.
PAPERS = {
    "fedsam2022": "Qu et al., ICML 2022 (FedSAM, MoFedSAM)",
    "fedsmoo2023": "Sun et al., ICML 2023 (FedSMOO)",
    "fedlesam2024": "Fan et al., ICML 2024 (FedLESAM)",
    "dfedsam2023": "Shi et al., ICML 2023 (DFedSAM)",
}

#: Kind of an erratum -> description.
KINDS = {
    "tables": "two tables disagree",
    "arithmetic": "a number does not follow from its inputs",
    "text": "the text disagrees with a table",
    "listing": "an algorithm's listing",
    "setting": "a setting is open",
    "print": "captions, references, typography",
    "code": "behavior of public code, and since when",
    "agreement": "checked, no contradiction",
}


def summary(finding: Finding) -> str:
    """Return how many of the compared numbers do not fit."""
    count, total = len(finding.contradictions), finding.compared
    if not count:
        return f"all {total} recomputed numbers fit"
    return f"{count} of {total} recomputed {'number does' if total == 1 else 'numbers do'} not fit"


def page(errata: Errata) -> str:
    """Return the page as HTML."""
    papers = groupby(errata.entries.items(), key=lambda item: item[1].paper)
    groups = [(PAPERS[paper], list(entries)) for paper, entries in papers]
    title = "Errata of the four papers"
    content = {"title": title, "about": ABOUT, "kinds": KINDS, "summary": summary, "groups": groups}
    return page_templates.framed(title, page_templates.filled("errata.html", **content))
