"""The catalog of all declarations in config/ and in the user's table folders, read and checked."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from flatfed import algorithms as registry
from flatfed.config.algorithm import ALGORITHMS, AlgorithmDocument
from flatfed.config.datasets import DATASETS, DatasetDocument, Source
from flatfed.config.document import Content
from flatfed.config.figure import FIGURE
from flatfed.config.protocol import PROTOCOL, Settings
from flatfed.config.split import SPLITS, Split
from flatfed.config.strict_yaml import read
from flatfed.config.table import DECLARATIONS, KINDS, TABLE, TableDocument
from flatfed.errors import ConfigError, FlatFedError, MissingData
from flatfed.plan import checks, data_sources, lookup, partitions
from flatfed.plan.lookup import Declared, Entries
from flatfed.plan.protocols import ResolvedProtocol, complete_algorithm, of_algorithm, variants
from flatfed.runs.paths import without_label

#: Key of a table file that declares entries -> type of the file of this name.
SECTIONS = {"datasets": DATASETS, "protocols": PROTOCOL, "splits": SPLITS, "algorithms": ALGORITHMS}


@dataclass(frozen=True, eq=False)
class Catalog:
    """All valid declarations by id; protocols include their labelled variants.

    ``sources``: dataset -> its source on this machine. ``split_places``: split -> file and key of its declaration.
    """

    datasets: Entries[DatasetDocument]
    splits: Entries[Split]
    algorithms: Entries[AlgorithmDocument]
    protocols: Entries[ResolvedProtocol]
    tables: Entries[Declared]
    figures: Entries[Declared]
    sources: dict[str, Source]
    split_places: dict[str, str]

    @property
    def sections(self) -> tuple[Entries[Any], ...]:
        """The declared datasets, splits, algorithms and protocols."""
        return self.datasets, self.splits, self.algorithms, self.protocols

    def settings(self, scale: str, protocol: str) -> Settings:
        """Return all settings of ``protocol`` at ``scale``."""
        return self.protocols[protocol].scales[scale]

    def dataset(self, scale: str, protocol: str) -> DatasetDocument:
        """Return the dataset that ``protocol`` uses at ``scale``."""
        return self.datasets[self.settings(scale, protocol).dataset]

    def label(self, row: str) -> str:
        """Return the name of an algorithm or variant in tables and figures."""
        return self.algorithms[row].label

    @functools.lru_cache(4096)  # noqa: B019, a catalog lives as long as its process
    def split_settings(self, scale: str, protocol: str, split: str) -> partitions.SplitSettings:
        """Return the partition, client sampling and topology of ``split``."""
        return partitions.of_split(split, self.protocols[protocol], scale, self.splits, self.datasets)

    def hyperparameters(
        self, scale: str, protocol: str, row: str, chosen: Mapping[str, float] = MappingProxyType({})
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """As :func:`protocols.of_algorithm`."""
        return of_algorithm(self.settings(scale, protocol), row, self.algorithms[row], chosen)


def load(
    root: Path, table_folders: Iterable[str], shared: Collection[str], data: Mapping[str, Source], where: str
) -> Catalog:
    """Return the catalog of ``root``/config, of tables in ``table_folders``, and of tables and figures in ``shared``.

    ``data``: dataset -> its source on this machine, set in ``where``. An invalid entry raises its error when used.

    :raises ConfigError: datasets.yaml, splits.yaml or algorithms.yaml is not a mapping, or ``data`` is unknown.
    """
    declared = {section: _section(root, section) for section in SECTIONS}
    tables = _add(root, [*table_folders, *shared], shared, declared)
    for name in registry.names():
        checks.check_id(name, "algorithm_folders: the file of an algorithm")
        if name not in declared["algorithms"].declared:
            declared["algorithms"][name] = Declared(AlgorithmDocument(), "config/algorithms.yaml", name)
    datasets, protocols, splits, algorithms = (Entries(None, part.refused) for part in declared.values())
    for name in data:
        lookup.check("dataset", name, declared["datasets"].declared, f"{where}: data")
    sources, seen = {}, {}
    for name, entry in declared["datasets"].items():
        with datasets.refusing(name):
            datasets[name], sources[name] = _dataset(name, entry, data.get(name), where)
    for name, entry in declared["splits"].items():
        with splits.refusing(name):
            checks.check_split(name, declared["splits"], seen)
            splits[name] = entry.content
    for name, entry in declared["algorithms"].items():
        with algorithms.refusing(name):
            checks.check_algorithm(name, entry.content, entry.where)
            plain = declared["algorithms"][without_label(name)].content
            algorithms[name] = complete_algorithm(name, entry.content, plain)
    for name, entry in declared["protocols"].items():
        with protocols.refusing(name):
            prefix = f"{entry.key}." if entry.key else ""
            resolved = variants(name, entry.content, entry.file, prefix)
            protocols.update({protocol.id: protocol for protocol in resolved})
    for name, protocol in list(protocols.items()):
        with protocols.refusing(name):
            lookup.check("protocol", without_label(name), protocols, protocol.file)
            checks.check_protocol(protocol, datasets, algorithms, splits)
    files = {name: entry.where for name, entry in declared["splits"].items()}
    figures = _files(root, "figures", FIGURE, shared)
    return Catalog(datasets, splits, algorithms, protocols, tables, figures, sources, files)


def _section(root: Path, section: str) -> Entries[Declared]:
    kind = SECTIONS[section]
    if section == "protocols":
        return _files(root, "protocols", kind)
    where = f"config/{section}.yaml"
    entries = read(root / where, where)
    if not entries or not isinstance(entries, dict):
        kind.check(entries, where)
    valid: Entries[Declared] = Entries()
    for name, entry in entries.items():
        with valid.refusing(name):
            valid[name] = Declared(kind.check({name: entry}, where)[name], where, name)
    return valid


def _add(
    root: Path, table_folders: Iterable[str], shared: Collection[str], declared: Mapping[str, Entries[Declared]]
) -> Entries[Declared]:
    """Add the declarations of table files to ``declared``, by section, and return the tables by id.

    A file with a mistake, or with an id that another file declares differently, is refused with all its ids.
    """
    tables: Entries[Declared] = Entries()
    folders = {"config/tables": root / "config/tables", **{folder: Path(folder) for folder in table_folders}}
    for folder, path in [(folder, path) for folder, at in folders.items() for path in _yaml_files(at)]:
        ids: list[tuple[str, str]] = []
        where = f"{folder}/{path.name}"
        try:
            checks.check_id(path.stem, where)
            content = read(path, where)
            if folder in shared and _is_figure(content):
                continue
            sections = {name: content[name] for name in SECTIONS if isinstance(content, dict) and name in content}
            ids = [(section, name) for section, part in sections.items() if isinstance(part, dict) for name in part]
            kind = DECLARATIONS if sections and sections.keys() == content.keys() else TABLE
            document = kind.check(content, where)
            if isinstance(document, TableDocument) and path.stem in tables.declared:
                first = tables[path.stem].file
                raise ConfigError(f"{where}: there is a table {path.stem!r} already, {first}")
            entries = {(section, name): getattr(document, section)[name] for section, name in ids}
            for at in filter(lambda at: at[0] == "datasets", ids):
                entries[at] = data_sources.in_project(entries[at], path)
            for (section, name), entry in entries.items():
                if (earlier := declared[section].get(name)) and earlier.content != entry:
                    already = f"{name!r} is declared already, in {earlier.where}, with other values"
                    raise ConfigError(f"{where}: {section}: {already}; an id means one thing everywhere")
        except ConfigError as error:
            for refused, name in [(tables, path.stem), *((declared[section], name) for section, name in ids)]:
                refused.refused.setdefault(name, error)
            continue
        for (section, name), entry in entries.items():
            declared[section].setdefault(name, Declared(entry, where, f"{section}.{name}"))
        if isinstance(document, TableDocument):
            tables[path.stem] = Declared(document, where)
    return tables


def _dataset(name: str, declared: Declared, override: Source | None, where: str) -> tuple[DatasetDocument, Source]:
    """Return the complete dataset ``name`` and its source on this machine; ``override``: a source set in ``where``.

    :raises MissingData: the images are absent, or not those that are declared.
    """
    source, location = declared.content.source, f"{declared.where}.source"
    if override:
        at = f"{where}: data.{name}"
        data_sources.check_resize(override, source, at, location)
        source, location = override, at
    try:
        if override:
            data_sources.check_exists(source, location)
        dataset = data_sources.complete(name, declared.content, source, declared.where)
        source = data_sources.expanded(source)
        if override:
            data_sources.check_order(source, source.images or dataset, location)
        else:
            data_sources.check_declared(source, dataset, declared.where)
        data_sources.check_domains(source, dataset, location)
    except FlatFedError as error:
        raise MissingData(str(error)) from None
    checks.check_dataset(dataset, declared.where)
    return dataset, Source(**source.model_dump(exclude_unset=True, exclude={"images"}))


def _files(root: Path, folder: str, kind: Content, shared: Collection[str] = ()) -> Entries[Declared]:
    """Return the files of config/``folder``, and the figures in ``shared``."""
    valid: Entries[Declared] = Entries()
    folders = {f"config/{folder}": root / "config" / folder, **{name: Path(name) for name in shared}}
    for place, path in [(place, path) for place, at in folders.items() for path in _yaml_files(at)]:
        where = f"{place}/{path.name}"
        with valid.refusing(path.stem):
            content = read(path, where)
            if place in shared and not _is_figure(content):
                continue
            checks.check_id(path.stem, where)
            if path.stem in valid.declared:
                raise ConfigError(f"{where}: there is a figure {path.stem!r} already, {valid[path.stem].file}")
            valid[path.stem] = Declared(kind.check(content, where), where)
    return valid


def _is_figure(content: Any) -> bool:
    """Return whether the content of a user's YAML file has the key ``kind``, and that of no table."""
    return isinstance(content, dict) and content.get("kind", KINDS[0]) not in KINDS


def _yaml_files(folder: Path) -> list[Path]:
    """Return the YAML files of a folder, without an editor's lock or swap files."""
    return sorted(folder.glob("[!.]*.yaml"))
