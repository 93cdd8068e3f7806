"""The text next to a picture: title, caption, set-up and explanation of the marks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping

from flatfed.plan.at_scale import ShownFigure
from flatfed.runs.record import RunRecord
from flatfed.tables import set_up


def text(spec: ShownFigure, records: Iterable[RunRecord], explanation: Iterable[str]) -> str:
    """Return the content of the file .txt; ``records``: of its runs; ``explanation``: sentences on the marks."""
    printed = spec.scale == "paper"
    unstated = set_up.unstated(spec.set_ups, spec.runs.values()) if printed else []
    paragraphs = [
        [f"Paper: {spec.document.paper}" if spec.document.paper and printed else "", set_up.caption(spec)],
        [f"Here: {set_up.setting(spec, set_up.image_counts(records))}"],
        explanation,
        [f"Not stated by the paper: {'; '.join(unstated)}" if unstated else ""],
    ]
    lines = (" ".join(part.rstrip(".") + "." for part in parts if part) for parts in paragraphs)
    return "\n".join([set_up.title(spec), "", *(textwrap.fill(line, 120) for line in lines if line), ""])


def seeds(numbers: Iterable[int]) -> str:
    """Return text such as "mean over seeds (n = 2 or 3)"; ``numbers``: of the seeds of each mark."""
    several = sorted({number for number in numbers if number})
    mean = "mean over seeds" if max(several, default=0) > 1 else "one seed"
    return mean + (f" (n = {' or '.join(map(str, several))})" if several else "")


def deviation(mark: str, numbers: Iterable[int]) -> str:
    """Return the text on the ``mark`` of a deviation over seeds, "" if no mark has several."""
    return f"; {mark}: ± one sample standard deviation over seeds" if max(numbers, default=0) > 1 else ""


def counts(numbers: Mapping[str, int]) -> list[str]:
    """Return "2 runs are missing" for every {words: number} above 0."""
    return [f"{number} {words}" for words, number in numbers.items() if number]
