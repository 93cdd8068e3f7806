"""Types of values in documents."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, StringConstraints, Tag, WrapValidator
from pydantic_core import PydanticCustomError

from flatfed.config import messages
from flatfed.config.document import mistake

#: The largest count, number and seed.
MOST, LARGEST, LAST_SEED = 1_000_000_000, 1_000_000, 2**32 - 1

Count = Annotated[int, Field(ge=1, le=MOST)]
Natural = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=1, le=LAST_SEED, description="a whole number from 1 up")]
#: A number stays as the file has it: 1 is not 1.0 in the JSON of a run.
as_given = WrapValidator(lambda value, validate: (validate(value), value)[1])
Positive = Annotated[float, Field(gt=0, le=LARGEST), as_given]
NotNegative = Annotated[float, Field(ge=0, le=LARGEST), as_given]
Fraction = Annotated[float, Field(ge=0, le=1), as_given]
Share = Annotated[float, Field(gt=0, le=1), as_given]
#: Any finite number.
Number = Annotated[float, as_given]
#: The width of a figure: from one narrow panel to a poster.
Inches = Annotated[float, Field(ge=2, le=40)]

#: Shape of an image.
Shape = Annotated[
    list[Annotated[int, Field(ge=1, le=65536, description="a whole number from 1 up")]],
    Field(min_length=3, max_length=3, description="[channels, height, width]"),
]

#: A character that a .tex table cannot print with booktabs alone (:data:`flatfed.tables.formats.latex.SPECIAL`).
UNPRINTABLE = re.compile(
    "[^\n -~\xa0-\u017fΑ-ΡΣ-Ωα-ωϑϕϖϱϵ−–—≥≤≠≈∞…’‘“”√→←↑↓∇∂∑∆‖ℓ⚠†]|[«»ÐÞðþĄąĐđĘęĦħĮįĸĿŀŉŊŋŦŧŲųſ]"
)


def _printable(text: str) -> str:
    if character := UNPRINTABLE.search(text):
        allowed = "Latin and Greek letters, punctuation, arrows and common signs of mathematics"
        raise mistake([], f"pdflatex cannot print {character[0]!r} in a table; it prints {allowed}")
    return text


#: Texts of tables.
Text = Annotated[str, Field(min_length=1), AfterValidator(_printable)]
#: Blanks at its ends do not count.
Line = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300), AfterValidator(_printable)
]
Location = Annotated[str, Field(min_length=1, max_length=1000)]
#: An id becomes part of paths and of shell commands.
ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
ID_WORDS = "an id has at most 64 letters, digits and . _ - only, begins with a letter or digit"
IdOfFile = Annotated[str, Field(pattern=ID, description=ID_WORDS)]


def _different(items: list[Any]) -> list[Any]:
    for item in items:
        if items.count(item) > 1:
            raise PydanticCustomError(messages.TWICE, "", {"item": item})
    return items


def _odd(number: int) -> int:
    if number and number % 2 == 0:
        raise mistake([], "expected an odd number")
    return number


Different = AfterValidator(_different)
#: An odd number, or 0 if the bounds allow it.
Odd = AfterValidator(_odd)
NotEmpty = Field(min_length=1)
Names = Annotated[list[str], NotEmpty, Different]
Seeds = Annotated[list[Seed], NotEmpty, Different]

#: Selects the alternative of a union by the type of a value, a name of types in JSON schemas.
by_type = Discriminator(lambda value: messages.TYPES.get(type(value), "object"))
#: A version of the code, or the digest of a user's file.
Version = Annotated[Annotated[int, Tag("integer")] | Annotated[str, Tag("string")], by_type]
Device = Literal["cpu", "cuda"]
