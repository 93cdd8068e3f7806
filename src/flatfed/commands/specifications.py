"""What Snakemake passes to ``cell``, ``table``, ``figure``, ``report`` and ``choose``, read for calls by hand, too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from flatfed import forms
from flatfed.errors import DataError
from flatfed.runs.choice import Choice
from flatfed.specs import figure
from flatfed.specs.cell import CellSpec
from flatfed.specs.pages import ReportSpec
from flatfed.specs.table import TableSpec

#: Sub-command -> the reader of what it takes, of JSON and the words that messages begin with.
READERS: dict[str, Callable[[Any, str], Any]] = {
    "cell": partial(forms.read, CellSpec),
    "table": partial(forms.read, TableSpec),
    "figure": figure.read,
    "report": partial(forms.read, ReportSpec),
    "choose": partial(forms.read, Choice),
}


def checked(spec: dict[str, Any], command: str) -> Any:
    """Return ``spec``, what ``command`` takes, as its dataclass.

    :raises DataError: a key is missing, or its value of another kind.
    """
    try:
        return READERS[command](spec, "--spec")
    except DataError as error:
        wanted = f"`snakemake -n -p --forcerun {command}` prints calls with whole specifications"
        raise DataError(f"{error}. {wanted}") from None
