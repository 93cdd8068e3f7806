"""config/errata.yaml."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from flatfed.config.document import Content, Document, optional, required
from flatfed.config.values import Count, Different, IdOfFile, NotEmpty, Text

Short = Annotated[str, Field(max_length=120)]
HEADER = "the header of a column of the page, or a number in it"


class Contradiction(Document):
    where: Short = required(HEADER)
    printed: Short = required(HEADER)
    against: Short = required(HEADER)


class Finding(Document):
    compared: Count = required("count of compared numbers")
    source: Short = required(HEADER)
    against: Short = required(HEADER)
    contradictions: list[Contradiction] = required("the contradicting numbers; empty for an agreement")


class Erratum(Document):
    paper: Literal["fedsam2022", "fedsmoo2023", "fedlesam2024", "dfedsam2023"] = required(
        "fedsam2022, fedsmoo2023, fedlesam2024 or dfedsam2023"
    )
    kind: Literal["tables", "arithmetic", "text", "listing", "setting", "print", "code", "agreement"] = required(
        "the kind of contradiction"
    )
    tables: Annotated[list[str], Different] = required(
        "the tables it concerns, names of files in config/reference; may be empty"
    )
    says: Text = required("the facts, in one or two sentences")
    finding: Finding = optional("the numbers that contradict each other; tests recompute it from config/reference")


ERRATA = Content(Annotated[dict[IdOfFile, Erratum], NotEmpty])
