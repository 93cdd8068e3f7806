"""The files under config/, and those of one's own: read, checked against their schemas and against each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from flatfed import algorithms as registry
from flatfed import schemas
from flatfed.errors import ConfigError
from flatfed.experiment import checks, data_sources, defaults, needs, own, settings
from flatfed.experiment.checks import LABELLED, PLAIN, check_id
from flatfed.experiment.own import Document
from flatfed.schemas import Missing
from flatfed.strict_yaml import read


@dataclass(frozen=True)
class Catalog:
    """All that is declared, by id, validated; protocols include their labelled variants, by scale.

    ``places``: kind ("datasets", "splits", "algorithms") -> id -> file and key of the entry, for messages.
    """

    datasets: dict[str, dict[str, Any]]
    splits: dict[str, dict[str, Any]]
    algorithms: dict[str, dict[str, Any]]
    protocols: dict[str, settings.Protocol]
    tables: dict[str, dict[str, Any]]
    table_files: dict[str, str]
    figures: dict[str, dict[str, Any]]
    places: dict[str, dict[str, str]]


def load(
    root: Path,
    table_folders: Iterable[str] = (),
    data: Mapping[str, dict[str, Any]] = MappingProxyType({}),
    where: str = "config",
) -> Catalog:
    """Read the catalog in ``root``/config, and tables and what is declared with them in ``table_folders``.

    ``data``: sources of datasets on this machine, in place of those declared; ``where`` both were asked for.

    :raises ConfigError: the first mistake, with file, key, value, what is allowed and the nearest match.
    """
    documents = own.documents(root, table_folders, f"{where}: table_folders")
    places: dict[str, dict[str, str]] = {}
    datasets, places["datasets"] = _entries(root, "datasets", PLAIN, documents, needs.datasets)
    for name, entry in datasets.items():
        at = places["datasets"][name]
        data_sources.check_source(entry["source"], f"{at}.source")
        if name in data:
            data_sources.check_source(data[name], f"{where}: data.{name}", also=("images",))
        datasets[name] = defaults.dataset(name, entry, data.get(name, entry["source"]), at)
        checks.check_dataset(datasets[name], at)
    splits, places["splits"] = _entries(root, "splits", PLAIN, documents, needs.splits)
    checks.check_splits(splits, places["splits"])
    splits = {name: defaults.split(entry) for name, entry in splits.items()}
    algorithms, places["algorithms"] = _entries(root, "algorithms", LABELLED, documents, needs.algorithms)
    for name in registry.names():
        check_id(name, PLAIN, "algorithm_folders: the file of an algorithm")
        algorithms.setdefault(name, {})  # a file alone is enough for a row
        places["algorithms"].setdefault(name, f"config/algorithms.yaml: {name}")
    known = registry.names()
    for name, entry in algorithms.items():
        checks.check_algorithm(name, entry, algorithms, known, places["algorithms"][name])
    algorithms = {name: defaults.algorithm(name, entry, algorithms) for name, entry in algorithms.items()}
    protocols = {protocol.id: protocol for protocol in _protocols(root, documents)}
    own.check_declared(documents, datasets, protocols, splits)
    for protocol in protocols.values():
        checks.check_protocol(protocol, datasets, algorithms, splits)
    tables, table_files = _tables(documents)
    figures = dict(_files(root / "config/figures", "config/figures", "figure"))
    return Catalog(datasets, splits, algorithms, protocols, tables, table_files, figures, places)


def _entries(
    root: Path,
    name: str,
    form: re.Pattern[str],
    documents: list[Document],
    lacking: Callable[[dict[str, Any]], Iterator[Missing]],
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the entries of config/<name>.yaml, and of the sections of this name, by id, and where each stands."""
    where = f"config/{name}.yaml"
    entries = read(root / where, where)
    schemas.refuse(own.mistakes(name, entries), where, (one for one in lacking(entries)))
    places = {}
    for id_ in entries:
        check_id(id_, form, where)
        places[id_] = f"{where}: {id_}"
    for document in documents:
        for id_, entry in document.sections.get(name, {}).items():
            check_id(id_, form, f"{document.where}: {name}")
            _refuse_again(id_, places, f"{document.where}: {name}")
            entries[id_], places[id_] = entry, f"{document.where}: {name}.{id_}"
    return entries, places


def _protocols(root: Path, documents: list[Document]) -> Iterator[settings.Protocol]:
    """Yield the protocols of config/protocols and of the sections of this name, with their labelled variants."""
    declared = {
        name: (content, f"config/protocols/{name}.yaml", "")
        for name, content in _files(root / "config/protocols", "config/protocols", "protocol")
    }
    for document in documents:
        for name, content in document.sections.get("protocols", {}).items():
            check_id(name, PLAIN, f"{document.where}: protocols")
            _refuse_again(name, {one: file for one, (_, file, _) in declared.items()}, f"{document.where}: protocols")
            declared[name] = (content, document.where, f"protocols.{name}.")
    for name, (content, file, under) in declared.items():
        for label in content.get("variants", {}):
            check_id(label, PLAIN, f"{file}: {under}variants")
        yield from settings.variants(name, content, file, under)


def _refuse_again(name: str, places: Mapping[str, str], where: str) -> None:
    """Refuse an id that is declared already."""
    if name in places:
        raise ConfigError(f"{where}: {name!r} is declared already, in {places[name]}; an id means one thing everywhere")


def _tables(documents: list[Document]) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the tables of all files by id, and the file of each."""
    tables: dict[str, dict[str, Any]] = {}
    files: dict[str, str] = {}
    for document in documents:
        name = document.name
        if document.table is None:
            continue
        if name in tables:
            raise ConfigError(f"{document.where}: there is a table {name!r} already, {files[name]}")
        tables[name], files[name] = defaults.table(document.table), document.where
    return tables, files


def _files(folder: Path, place: str, schema: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield id, the name without .yaml, and content of the files of ``folder``; ``place`` is its name in messages."""
    for path in own.files(folder):
        where = f"{place}/{path.name}"
        check_id(path.stem, PLAIN, where)
        content = read(path, where)
        schemas.validate(content, schema, where)
        yield path.stem, content
