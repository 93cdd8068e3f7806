"""config/errata.yaml."""

from __future__ import annotations

from typing import Annotated

from flatfed.config.document import Content, Document, optional, required
from flatfed.config.values import Different, IdOfFile, NotEmpty


class Erratum(Document):
    says: str = required("the contradiction, in one or two sentences")
    tables: Annotated[list[str], Different] = optional(
        "the printed tables that it concerns as a whole, names of files in config/reference", ()
    )


ERRATA = Content(Annotated[dict[IdOfFile, Erratum], NotEmpty])
