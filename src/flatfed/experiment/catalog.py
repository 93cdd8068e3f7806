"""The files under config/, and those of one's own: read, checked against their schemas and against each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from flatfed import algorithms as registry
from flatfed import schemas
from flatfed.errors import ConfigError
from flatfed.experiment import checks, data_sources, deals, defaults, known, settings
from flatfed.experiment.checks import check_id
from flatfed.experiment.known import Entries
from flatfed.strict_yaml import read

#: Keys of a file of tables that are no part of a table; their entries are those of the catalog's files of these names.
SECTIONS = ("datasets", "protocols", "splits", "algorithms")


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


@dataclass(frozen=True, eq=False)
class Catalog:
    """All that is declared, by id, validated; protocols include their labelled variants, by scale.

    ``sources``: dataset -> the source that this machine reads.
    ``split_places``: split -> file and key of its entry, for messages.
    """

    datasets: Entries[dict[str, Any]]
    splits: Entries[dict[str, Any]]
    algorithms: Entries[dict[str, Any]]
    protocols: Entries[settings.Protocol]
    tables: Entries[Declared]
    figures: Entries[Declared]
    sources: dict[str, dict[str, Any]]
    split_places: dict[str, str]

    def values(self, scale: str, protocol: str) -> dict[str, Any]:
        """Return all settings of ``protocol`` at ``scale``."""
        return self.protocols[protocol].scales[scale]

    def dataset(self, scale: str, protocol: str) -> dict[str, Any]:
        """Return the dataset that ``protocol`` uses at ``scale``."""
        return self.datasets[self.values(scale, protocol)["dataset"]]

    def label(self, row: str) -> str:
        """Return the name of an algorithm or variant in tables and figures."""
        return self.algorithms[row]["label"]

    def deal(self, scale: str, protocol: str, split: str) -> deals.Deal:
        """Return how ``split`` deals the data, and who takes part."""
        return deals.of_split(split, self.protocols[protocol], scale, self)

    def hyperparameters(
        self, scale: str, protocol: str, row: str, chosen: Mapping[str, float] = MappingProxyType({})
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return (training settings, parameters) of an algorithm or variant, with values ``chosen`` by tuning."""
        return settings.of_algorithm(self.values(scale, protocol), row, self.algorithms[row], chosen)


def load(root: Path, table_folders: Iterable[str], data: Mapping[str, dict[str, Any]], where: str) -> Catalog:
    """Read the catalog in ``root``/config, and tables and what is declared with them in ``table_folders``.

    ``data``: sources of datasets on this machine, in place of those declared; ``where`` both were asked for. An entry
    with a mistake, and all that names it, is refused: with file, key, value, what is allowed and the nearest match.

    :raises ConfigError: config/datasets.yaml, splits.yaml or algorithms.yaml is no YAML file of entries, or there is
        no such table folder or dataset of ``data``.
    """
    declared = {section: _section(root, section) for section in SECTIONS}
    tables = _add(root, table_folders, declared)
    for name in registry.names():
        check_id(name, "algorithm_folders: the file of an algorithm")
        # A file alone is enough for a row.
        if name not in declared["algorithms"].declared:
            declared["algorithms"][name] = Declared({}, "config/algorithms.yaml", name)
    datasets, protocols, splits, algorithms = (Entries(None, of.refused, of.unread) for of in declared.values())
    for name in data:
        known.check("dataset", name, declared["datasets"].declared, f"{where}: data")
    sources, seen = {}, {}
    for name, one in declared["datasets"].items():
        with datasets.refusing(name):
            datasets[name], sources[name] = _dataset(name, one, data.get(name), where)
    for name, one in declared["splits"].items():
        with splits.refusing(name):
            checks.check_split(name, declared["splits"], seen)
            splits[name] = defaults.split(one.content)
    for name, one in declared["algorithms"].items():
        with algorithms.refusing(name):
            checks.check_algorithm(name, one.content, one.where)
            plain = declared["algorithms"][name.partition("~")[0]].content
            algorithms[name] = defaults.algorithm(name, one.content, plain)
    for name, one in declared["protocols"].items():
        with protocols.refusing(name):
            under = f"{one.key}." if one.key else ""
            found = settings.variants(name, one.content, one.file, under)
            protocols.update({protocol.id: protocol for protocol in found})
    for name, protocol in list(protocols.items()):
        with protocols.refusing(name):
            known.check("protocol", name.partition("~")[0], protocols, protocol.file)
            checks.check_protocol(protocol, datasets, algorithms, splits)
    places = {name: one.where for name, one in declared["splits"].items()}
    return Catalog(datasets, splits, algorithms, protocols, tables, _files(root, "figures", "figure"), sources, places)


def _section(root: Path, section: str) -> Entries[Declared]:
    """Return the entries of a ``section`` in config/ by id; ConfigError for a file that is no mapping with entries."""
    if section == "protocols":
        return _files(root, "protocols", "protocol")
    where = f"config/{section}.yaml"
    entries = read(root / where, where)
    if not entries or not isinstance(entries, dict):
        schemas.validate(entries, section, where)
    found: Entries[Declared] = Entries()
    for name, entry in entries.items():
        with found.refusing(name):
            schemas.validate({name: entry}, section, where)
            found[name] = Declared(entry, where, name)
    return found


def _add(root: Path, table_folders: Iterable[str], declared: Mapping[str, Entries[Declared]]) -> Entries[Declared]:
    """Add what the files of tables declare to what is ``declared``, by section, and return the tables by id.

    A file with a mistake, or that declares an id otherwise than another file, is refused as a whole: an id of it has
    its message, unless another file declares the id too.
    """
    tables: Entries[Declared] = Entries()
    folders = {"config/tables": root / "config/tables", **{folder: Path(folder) for folder in table_folders}}
    unread = ""
    for path, where in [(path, f"{name}/{path.name}") for name, at in folders.items() for path in _yaml_files(at)]:
        found: list[tuple[str, str, dict[str, Any]]] = []
        try:
            check_id(path.stem, where)
            content = read(path, where)
            sections = _sections(content)
            found = [(section, name, entry) for section, entries in sections.items() for name, entry in entries.items()]
            _check_file(content, where)
            table = {key: value for key, value in content.items() if key not in sections}
            if table and path.stem in tables.declared:
                first = tables[path.stem].file
                raise ConfigError(f"{where}: there is a table {path.stem!r} already, {first}")
            for section, name, entry in found:
                if section == "datasets":
                    entry["source"] = data_sources.of_project(entry["source"], path)
                if (other := declared[section].get(name)) and other.content != entry:
                    already = f"{name!r} is declared already, in {other.where}, with other values"
                    raise ConfigError(f"{where}: {section}: {already}; an id means one thing everywhere")
        except ConfigError as error:
            for of, name in [(tables, path.stem), *((declared[section], name) for section, name, _ in found)]:
                of.refused.setdefault(name, str(error))
            unread += "" if found else f"; a file that may declare it cannot be used: {error}"
            continue
        for section, name, entry in found:
            declared[section].setdefault(name, Declared(entry, where, f"{section}.{name}"))
        if table:
            tables[path.stem] = Declared(defaults.table(table), where)
    for entries in declared.values():
        entries.unread = unread
    return tables


def _dataset(name: str, one: Declared, given: dict[str, Any] | None, where: str) -> tuple[dict[str, Any], ...]:
    """Return the dataset ``name`` and the source that this machine reads: ``given`` in ``where``, else its own."""
    source, place = one.content["source"], f"{one.where}.source"
    data_sources.check_source(source, place)
    if given:
        at = f"{where}: data.{name}"
        schemas.refuse(schemas.mistakes(given, "source", ("data", name)), where)
        data_sources.check_source(given, at)
        data_sources.check_cut(given, source, at, place)
        data_sources.check_there(given, at)
        source, place = given, at
    dataset = defaults.dataset(name, one.content, source, one.where)
    checks.check_dataset(dataset, one.where)
    source = data_sources.at_home(source)
    if given:
        data_sources.check_order(source, {**dataset, **source.get("images", {})}, place)
    else:
        data_sources.check_said(source, dataset, one.where)
    data_sources.check_domains(source, dataset, place)
    return dataset, {key: value for key, value in source.items() if key != "images"}


def _files(root: Path, folder: str, schema: str) -> Entries[Declared]:
    """Return the files of config/<folder> by id: the name without .yaml."""
    found: Entries[Declared] = Entries()
    for path in _yaml_files(root / "config" / folder):
        where = f"config/{folder}/{path.name}"
        with found.refusing(path.stem):
            check_id(path.stem, where)
            content = read(path, where)
            schemas.validate(content, schema, where)
            found[path.stem] = Declared(defaults.figure(content) if folder == "figures" else content, where)
    return found


def _yaml_files(folder: Path) -> list[Path]:
    """Return the YAML files of a folder, without an editor's lock or swap files."""
    return sorted(folder.glob("[!.]*.yaml"))


def _sections(content: Any) -> dict[str, dict[str, Any]]:
    """Return the sections of a file's ``content`` by name."""
    there = content if isinstance(content, dict) else {}
    return {name: there[name] for name in SECTIONS if isinstance(there.get(name), dict)}


def _check_file(content: Any, where: str) -> None:
    """Refuse the ``content`` of a file called ``where`` by its schema: all that it lacks in one mistake."""
    errors, own = schemas.mistakes(content, "table"), _sections(content)
    if own and own.keys() == content.keys():  # declarations alone
        errors = [error for error in errors if error.absolute_path or error.validator != "required"]
    schemas.refuse(errors, where)
