"""Files of tables: beside a table, or in its place, datasets, protocols, splits and labelled variants of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jsonschema import ValidationError

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
    """Refuse the ``content`` of a file called ``where`` by its schemas: all that it lacks in one mistake."""
    errors, own = schemas.mistakes(content, "table"), sections(content)
    if own and own.keys() == content.keys():  # declarations alone
        errors = [error for error in errors if error.validator != "required"]
    for name, entries in own.items():
        errors += mistakes(name, entries, (name,))
    schemas.refuse(errors, where)


def mistakes(name: str, entries: Any, under: tuple[str, ...] = ()) -> list[ValidationError]:
    """Return where the ``entries`` of a section, which stand ``under`` these keys of their file, are not as wanted."""
    if name == "protocols":
        return [one for id_, entry in entries.items() for one in schemas.mistakes(entry, "protocol", (*under, id_))]
    errors = schemas.mistakes(entries, name, under)
    if name == "datasets" and isinstance(entries, dict):
        for id_, entry in entries.items():
            if isinstance(entry, dict) and isinstance(entry.get("source"), dict):
                errors += schemas.mistakes(entry["source"], "source", (*under, id_, "source"))
    return errors
