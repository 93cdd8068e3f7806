"""The page of the errata, in Markdown and HTML."""

from __future__ import annotations

from itertools import groupby

from markupsafe import Markup

from flatfed.papers.errata import Errata, Erratum
from flatfed.tables.formats import html
from flatfed.tables.formats.markdown import escape

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


def summary(one: Erratum) -> str:
    """Say what a check compared and how much of it does not fit; "" where nothing was recomputed."""
    if one.finding is None:
        return ""
    count, total = len(one.finding.contradictions), one.finding.compared
    return f"{count} of {total} recomputed {'number does' if total == 1 else 'numbers do'} not fit" if count else (
        f"all {total} recomputed numbers fit"
    )  # fmt: skip


def markdown(errata: Errata) -> str:
    """Return the page as Markdown."""
    parts = [f"# {TITLE}", ABOUT]
    for paper, entries in groups(errata):
        parts.append(f"## {escape(paper)}")
        for one in entries:
            where = f" ({', '.join(one.tables)})" if one.tables else ""
            said = summary(one)
            parts.append(
                f"**{one.id}**, {KINDS[one.kind]}{escape(where)}: {escape(one.says)}" + (f" *{said}.*" if said else "")
            )
            if one.finding and one.finding.contradictions:
                head = f"| where | {one.finding.source} | {escape(one.finding.against)} |\n| --- | ---: | ---: |"
                found = one.finding.contradictions
                rows = [f"| {escape(x.where)} | {escape(x.printed)} | {escape(x.against)} |" for x in found]
                parts.append("\n".join([head, *rows]))
    return "\n\n".join(parts) + "\n"


def page(errata: Errata) -> str:
    """Return the page as self-contained HTML."""
    frame = html.environment().get_template("page.html.j2")
    return frame.render(title=TITLE, style=html.style(), body=fragment(errata)) + "\n"


def fragment(errata: Errata, level: int = 1) -> Markup:
    """Return the page's content, without style; its title is a heading of ``level``, those below follow."""
    template = html.environment().get_template("errata.html.j2")
    return Markup(
        template.render(title=TITLE, about=ABOUT, groups=groups(errata), kinds=KINDS, summary=summary, level=level)
    )


#: File name suffix -> function that writes it.
FORMATS = {".md": markdown, ".html": page}
