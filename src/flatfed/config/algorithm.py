"""config/algorithms.yaml."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from flatfed.config.document import Content, Document, mistake, optional, require
from flatfed.config.values import Line, NotEmpty

Row = Annotated[
    str,
    Field(
        max_length=64,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(~[A-Za-z0-9][A-Za-z0-9._-]*)?$",
        description=(
            "an id has at most 64 letters, digits and . _ - only, begins with a letter or digit, and has at most one"
            " ~ before a label"
        ),
    ),
]


class AlgorithmDocument(Document):
    label: Line = optional("its name in tables; by default the name of its class and the `set` of a variant")
    note: str = optional("text under every table and figure with the row or a variant of it")
    set: Annotated[dict[str, Any], NotEmpty] = optional(
        "for a variant (id~label), what differs - training keys or parameters of the algorithm"
    )


def _only_variants_differ(entries: dict[str, AlgorithmDocument]) -> dict[str, AlgorithmDocument]:
    for name, entry in entries.items():
        if "~" not in name and entry.set:
            raise mistake([name, "set"], "only a variant, id~label, has this key; others have their file's defaults")
        if "~" in name:
            require(entry, ("set",), [name])
    return entries


Algorithms = Annotated[dict[Row, AlgorithmDocument], NotEmpty, AfterValidator(_only_variants_differ)]
ALGORITHMS = Content(Algorithms)
