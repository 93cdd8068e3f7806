"""``flatfed errata``: the papers' own contradictions, recomputed."""

from __future__ import annotations

import sys
from pathlib import Path

from flatfed.commands.configuration import HOME
from flatfed.errors import DataError, unknown
from flatfed.files import write_whole
from flatfed.papers.errata import Errata
from flatfed.tables import errata_page


def write(out: Path | None) -> None:
    """Write the page of the errata to ``out``, Markdown or HTML by its suffix; None prints it as Markdown.

    :raises ConfigError: config/errata.yaml is malformed.
    :raises DataError: the suffix is another one.
    """
    errata = Errata(HOME)
    if out is None:
        sys.stdout.write(errata_page.markdown(errata))
        return
    if out.suffix not in errata_page.FORMATS:
        raise DataError(unknown("suffix", out.suffix, errata_page.FORMATS, str(out)))
    text = errata_page.FORMATS[out.suffix](errata)
    with write_whole(out, "w") as file:
        file.write(text)
