"""The page of the errata, in Markdown, HTML and text."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from flatfed.papers.errata import Errata, Erratum
from flatfed.tables import page_templates

TITLE = "Errata of the four papers"
ABOUT = (
    "Contradictions found in the papers while their tables were set again. The printed numbers are left as they are; "
    "what can be recomputed from them is, and a number beside its check is one that does not fit."
)

#: Paper id -> what it is.
PAPERS = {
    "fedsam2022": "Qu et al., ICML 2022 (FedSAM, MoFedSAM)",
    "fedsmoo2023": "Sun et al., ICML 2023 (FedSMOO)",
    "fedlesam2024": "Fan et al., ICML 2024 (FedLESAM)",
    "dfedsam2023": "Shi et al., ICML 2023 (DFedSAM)",
}

#: Kind -> words for it.
KINDS = {
    "tables": "two tables disagree",
    "arithmetic": "a number is not what it is computed from",
    "text": "the text disagrees with a table",
    "listing": "an algorithm's listing",
    "setting": "a setting is open",
    "print": "captions, references, typography",
    "code": "what public code does, and since when",
    "agreement": "looked for, and none found",
}


def groups(errata: Errata) -> list[tuple[str, list[Erratum]]]:
    """Return (paper in words, its errata) in the file's order."""
    return [(PAPERS[paper], list(entries)) for paper, entries in groupby(errata.entries, key=lambda one: one.paper)]


def summary(finding: dict[str, Any]) -> str:
    """Say how many of the compared numbers do not fit."""
    count, total = len(finding["contradictions"]), finding["compared"]
    if not count:
        return f"all {total} recomputed numbers fit"
    return f"{count} of {total} recomputed {'number does' if total == 1 else 'numbers do'} not fit"


def page(errata: Errata, suffix: str) -> str:
    """Return the page in the format of ``suffix``."""
    about = {"title": TITLE, "about": ABOUT, "kinds": KINDS, "summary": summary}
    return page_templates.page("errata", suffix, groups=groups(errata), **about)
