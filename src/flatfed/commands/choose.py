"""``flatfed choose``: of the runs that try a grid, the one with the best accuracy on the validation parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatfed.commands.arguments import _add, _add_path, _add_spec

if TYPE_CHECKING:
    from flatfed.runs.choice import Choice


def add(commands: Any) -> None:
    """Add the sub-command to the command line."""
    sub = _add(
        commands,
        "choose",
        "choose among the values that a paper tuned, by accuracy on a validation part",
        "Reads the runs that tried them and records grid, accuracies and choice; the test images have no part in it.\n"
        "Snakemake passes the specification: `snakemake -n -p --forcerun choose tuning` prints every call.",
        "python -m flatfed choose --spec cell.json --out choice.json",
    )
    _add_spec(sub, "--spec", "what was tried")
    _add_path(sub, "--out", "FILE", "file to write")


def choose(asked: Choice, out: Path) -> None:
    """Make the choice that is ``asked`` for."""
    from flatfed.tables import choice

    choice.make(asked, out)
