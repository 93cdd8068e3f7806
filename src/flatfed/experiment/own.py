"""Files of tables: beside a table, or in its place, datasets, protocols, splits and labelled variants of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flatfed import schemas

#: Keys of such a file that are no part of a table. Their entries are as those of the catalog's files of these names.
SECTIONS = ("datasets", "protocols", "splits", "algorithms")


def files(folder: Path) -> list[Path]:
    """Return the YAML files of a folder, without an editor's lock or swap files."""
    return sorted(folder.glob("[!.]*.yaml"))


def sections(content: Any) -> dict[str, dict[str, Any]]:
    """Return the sections of a file's ``content`` by name."""
    there = content if isinstance(content, dict) else {}
    return {name: there[name] for name in SECTIONS if isinstance(there.get(name), dict)}


def check(content: Any, where: str) -> None:
    """Refuse the ``content`` of a file called ``where`` by its schema: all that it lacks in one mistake."""
    errors, own = schemas.mistakes(content, "table"), sections(content)
    if own and own.keys() == content.keys():  # declarations alone
        errors = [error for error in errors if error.absolute_path or error.validator != "required"]
    schemas.refuse(errors, where)
