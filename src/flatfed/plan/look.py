"""How tables and figures for a paper look."""

from __future__ import annotations

from dataclasses import dataclass

from flatfed.config.request import Request
from flatfed.plan.figures import Figure
from flatfed.plan.tables import Table


@dataclass(frozen=True)
class Look:
    """What .tex tables and figures show next to their numbers, and the algorithm that they ``highlight``."""

    title: bool = True
    notes: bool = True
    highlight: str | None = None

    @classmethod
    def of(cls, request: Request) -> Look:
        return cls(request.title != "none", request.notes != "none", request.highlight)

    def title_of(self, shown: Table | Figure) -> str:
        """Return the title, or the part that names the scale of a preview."""
        return shown.title if self.title else shown.title.removesuffix(shown.document.title).rstrip(": ")
