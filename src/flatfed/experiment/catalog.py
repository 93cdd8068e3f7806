"""The files under config/, and those of one's own: read, checked against their schemas and against each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed import algorithms as registry
from flatfed import schemas
from flatfed.errors import ConfigError
from flatfed.experiment import checks, data_sources, defaults, needs, own, settings
from flatfed.experiment.checks import LABELLED, PLAIN, check_id
from flatfed.experiment.own import SECTIONS, Document
from flatfed.strict_yaml import read


@dataclass(frozen=True)
class Declared:
    """The ``content`` that a ``file`` declares under an id: at this ``key`` of it, "" where it is the whole file."""

    content: dict[str, Any]
    file: str
    key: str = ""

    @property
    def where(self) -> str:
        """File and key, for messages."""
        return f"{self.file}: {self.key}" if self.key else self.file


@dataclass(frozen=True)
class Catalog:
    """All that is declared, by id, validated; protocols include their labelled variants, by scale.

    ``places``: section ("datasets", "splits", "algorithms") -> id -> file and key of the entry, for messages.
    """

    datasets: dict[str, dict[str, Any]]
    splits: dict[str, dict[str, Any]]
    algorithms: dict[str, dict[str, Any]]
    protocols: dict[str, settings.Protocol]
    tables: dict[str, Declared]
    figures: dict[str, Declared]
    places: dict[str, dict[str, str]]


def load(root: Path, table_folders: Iterable[str], data: Mapping[str, dict[str, Any]], where: str) -> Catalog:
    """Read the catalog in ``root``/config, and tables and what is declared with them in ``table_folders``.

    ``data``: sources of datasets on this machine, in place of those declared; ``where`` both were asked for.

    :raises ConfigError: the first mistake, with file, key, value, what is allowed and the nearest match.
    """
    documents = own.documents(root, table_folders)
    declared = {section: _section(root, section, documents) for section in SECTIONS}
    for name in registry.names():
        check_id(name, PLAIN, "algorithm_folders: the file of an algorithm")
        # A file alone is enough for a row.
        declared["algorithms"].setdefault(name, Declared({}, "config/algorithms.yaml", name))
    contents = {section: {name: one.content for name, one in found.items()} for section, found in declared.items()}
    places = {section: {name: one.where for name, one in found.items()} for section, found in declared.items()}
    datasets = {}
    for name, entry in contents["datasets"].items():
        at = places["datasets"][name]
        data_sources.check_source(entry["source"], f"{at}.source")
        if name in data:
            given = f"{where}: data.{name}"
            schemas.refuse(schemas.mistakes(data[name], "source"), given, needs.source(data[name]))
            data_sources.check_source(data[name], given, also=("images",))
            data_sources.check_cut(data[name], entry["source"], given, f"{at}.source")
        datasets[name] = defaults.dataset(name, entry, data.get(name, entry["source"]), at)
        checks.check_dataset(datasets[name], at)
    checks.check_splits(contents["splits"], places["splits"])
    splits = {name: defaults.split(entry) for name, entry in contents["splits"].items()}
    for name, entry in contents["algorithms"].items():
        checks.check_algorithm(name, entry, places["algorithms"][name])
    algorithms = {
        name: defaults.algorithm(name, entry, contents["algorithms"]) for name, entry in contents["algorithms"].items()
    }
    protocols = {protocol.id: protocol for protocol in _protocols(declared["protocols"])}
    own.check_declared(documents, datasets, protocols, splits)
    for protocol in protocols.values():
        checks.check_protocol(protocol, datasets, algorithms, splits)
    return Catalog(
        datasets, splits, algorithms, protocols, _tables(documents), dict(_files(root, "figures", "figure")), places
    )


def _section(root: Path, section: str, documents: list[Document]) -> dict[str, Declared]:
    """Return what config/ declares of a ``section``, and the files of tables, by id."""
    if section == "protocols":
        found = dict(_files(root, "protocols", "protocol"))
    else:
        where = f"config/{section}.yaml"
        entries = read(root / where, where)
        schemas.refuse(own.mistakes(section, entries), where, needs.section(section, entries))
        found = {name: Declared(entry, where, name) for name, entry in entries.items()}
    form = LABELLED if section == "algorithms" else PLAIN
    for name, one in found.items():
        check_id(name, form, one.file)
    for document in documents:
        where = f"{document.where}: {section}"
        for name, entry in document.sections.get(section, {}).items():
            check_id(name, form, where)
            if name in found:
                already = f"{name!r} is declared already, in {found[name].where}"
                raise ConfigError(f"{where}: {already}; an id means one thing everywhere")
            found[name] = Declared(entry, document.where, f"{section}.{name}")
    return found


def _protocols(declared: dict[str, Declared]) -> Iterator[settings.Protocol]:
    """Yield the protocols with their labelled variants."""
    for name, one in declared.items():
        under = f"{one.key}." if one.key else ""
        for label in one.content.get("variants", {}):
            check_id(label, PLAIN, f"{one.file}: {under}variants")
        yield from settings.variants(name, one.content, one.file, under)


def _tables(documents: list[Document]) -> dict[str, Declared]:
    """Return the tables of all files by id."""
    tables: dict[str, Declared] = {}
    for document in documents:
        name = document.name
        if document.table is None:
            continue
        if name in tables:
            raise ConfigError(f"{document.where}: there is a table {name!r} already, {tables[name].file}")
        tables[name] = Declared(defaults.table(document.table), document.where)
    return tables


def _files(root: Path, folder: str, schema: str) -> Iterator[tuple[str, Declared]]:
    """Yield id, the name without .yaml, and content of the files of config/<folder>."""
    for path in own.files(root / "config" / folder):
        where = f"config/{folder}/{path.name}"
        check_id(path.stem, PLAIN, where)
        content = read(path, where)
        schemas.validate(content, schema, where)
        yield path.stem, Declared(content, where)
