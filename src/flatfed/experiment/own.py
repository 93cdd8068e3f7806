"""Files of tables: beside a table, or in its place, datasets, protocols, splits and labelled variants of one's own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonschema import ValidationError

from flatfed import schemas
from flatfed.errors import ConfigError
from flatfed.experiment import data_sources
from flatfed.experiment.checks import PLAIN, check_id
from flatfed.strict_yaml import read

#: Keys of such a file that are no part of a table. Their entries are as those of the catalog's files of these names.
SECTIONS = ("datasets", "protocols", "splits", "algorithms")


@dataclass(frozen=True)
class Document:
    """A file called ``where``: its ``table`` of the id ``name``, None where it has none, and its sections by name.

    ``mistake``: the message of a file that cannot be read, or lacks or misspells a key; "" of a valid one.
    """

    where: str
    name: str
    table: dict[str, Any] | None
    sections: dict[str, dict[str, Any]]
    mistake: str = ""


def documents(root: Path, folders: Iterable[str]) -> list[Document]:
    """Return the files of ``root``/config/tables and of ``folders``."""
    places = {"config/tables": root / "config/tables", **{folder: Path(folder) for folder in folders}}
    return [document(path, f"{name}/{path.name}") for name, place in places.items() for path in files(place)]


def files(folder: Path) -> list[Path]:
    """Return the YAML files of a folder, without an editor's lock or swap files."""
    return sorted(folder.glob("[!.]*.yaml"))


def document(path: Path, where: str) -> Document:
    """Return the file at ``path``, called ``where``, checked against its schemas: all that it lacks in one mistake."""
    try:
        check_id(path.stem, PLAIN, where)
        content = read(path, where)
    except ConfigError as error:
        return Document(where, path.stem, None, {}, str(error))
    errors = schemas.mistakes(content, "table")
    sections = {}
    if isinstance(content, dict):
        sections = {name: content[name] for name in SECTIONS if isinstance(content.get(name), dict)}
    table = {key: value for key, value in content.items() if key not in sections} if sections else content
    if sections and not table:  # declarations alone
        errors = [error for error in errors if error.validator != "required"]
    for name, entries in sections.items():
        errors += mistakes(name, entries, (name,))
    try:
        schemas.refuse(errors, where)
    except ConfigError as error:
        return Document(where, path.stem, None, sections, str(error))
    for entry in sections.get("datasets", {}).values():
        entry["source"] = data_sources.of_project(entry["source"], path)
    return Document(where, path.stem, table or None, sections)


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
