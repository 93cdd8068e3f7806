"""Loading of config/ and of the user's folders into an :class:`Experiment`."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flatfed import algorithms as registry
from flatfed import models
from flatfed.config import parsed_files, strict_yaml
from flatfed.config.algorithm import ALGORITHMS, AlgorithmDocument
from flatfed.config.datasets import DATASETS, DatasetDocument, LocalDataset, Source
from flatfed.config.figure import FIGURE
from flatfed.config.protocol import PROTOCOL
from flatfed.config.request import REQUEST, Request
from flatfed.config.split import SPLITS
from flatfed.config.table import DECLARATIONS, TABLE, TableDocument
from flatfed.errors import ConfigError, FlatFedError, MissingData, unknown
from flatfed.plan import checks, data_sources, figures, lookup, protocols, reference, sweeps, tables
from flatfed.plan.catalog import Catalog
from flatfed.plan.experiment import Experiment, Requested
from flatfed.plan.lookup import Declared, Entries
from flatfed.plan.tables import Table
from flatfed.runs.paths import DEFAULT, Paths, without_label
from flatfed.runs.store import Store
from flatfed.user_files import CALLBACKS, kind_of

#: Locations of the configuration in messages.
FILE = "config/config.yaml"
WHERE = f"{FILE} or --config"

#: Key of a table file that declares entries -> type of the file of this name.
SECTIONS = {"datasets": DATASETS, "protocols": PROTOCOL, "splits": SPLITS, "algorithms": ALGORITHMS}

#: Folder of config/ -> type of its files.
FILES = {"protocols": PROTOCOL, "tables": TABLE, "figures": FIGURE}


def load(root: str | Path, config: dict[str, Any] | None = None, paths: Paths = DEFAULT) -> Experiment:
    """Return the experiment of ``root``/config; ``config``: config.yaml with the command line (None: the file alone).

    Entries whose data are missing raise an error when they are used, and in :meth:`Experiment.check`.

    :raises ConfigError: all mistakes in the files, or a mistake in ``config``.
    """
    root = Path(root)
    # Snakemake, which merges the file into ``config``, accepts duplicate keys.
    request = read(root / FILE)
    if config is not None:
        request = REQUEST.check(config, WHERE)
    environment = _user_folders(request)
    catalog = _catalog(_declarations(root, request), request.data)
    if request.highlight:
        lookup.check_algorithm(request.highlight, catalog.algorithms.declared, f"{WHERE}: highlight")
    references = reference.read_all(root)
    all_tables = catalog.tables.resolved(lambda name, entry: tables.table(name, entry, catalog, references))
    all_figures = catalog.figures.resolved(lambda name, entry: figures.figure(name, entry, catalog))
    lookup.raise_errors([*catalog.sections, all_tables, all_figures], missing=False)
    for index, name in enumerate(request.figures):
        lookup.check("figure", name, all_figures.declared, f"{WHERE}: figures[{index}]")
    requested = Requested(_tables(request, all_tables), request.figures)
    # Tables must fit the declared datasets. Smaller local data must fit the requested tables alone.
    here = {name: dict(source.images or {}) for name, source in request.data.items()}
    counted = catalog.datasets.resolved(
        lambda name, entry: LocalDataset.model_construct(
            **{**vars(entry), "declared_images": entry.train + entry.test, **here.get(name, {})}
        )
    )
    catalog, store = replace(catalog, datasets=counted), Store(request.published)
    return Experiment(root, request, paths, catalog, references, all_tables, all_figures, requested, environment, store)


def read(path: Path) -> Request:
    """Return the config.yaml at ``path``; ConfigError for a wrong key, type or value."""
    return REQUEST.check(strict_yaml.read(path, FILE), FILE)


def _user_folders(request: Request) -> dict[str, str]:
    """Register the user's files; return the environment variables for jobs."""
    for key in ("folders", "published"):
        for folder in getattr(request, key):
            if not Path(folder).is_dir():
                absent = f"{WHERE}: {key}: there is no folder {folder!r} ({Path(folder).absolute()})"
                raise ConfigError(f"{absent}; create it, or correct or remove this entry")
    for file in filter(lambda file: kind_of(Path(file)) != "callback", request.callbacks):
        absent = "no class of it has the base Callback" if Path(file).is_file() else "there is no such file"
        raise ConfigError(f"{WHERE}: callbacks: {file}: {absent}; see docs/questions.md")
    environment = {}
    if request.callbacks:
        environment[CALLBACKS] = os.pathsep.join(str(Path(file).resolve()) for file in request.callbacks)
    for files in (registry.FILES, models.FILES):
        if folders := files.look_in(request.folders, f"{WHERE}: folders"):
            environment[files.variable] = os.pathsep.join(folders)
    return environment


def _declarations(root: Path, request: Request) -> dict[str, Entries[Declared]]:
    """Return the declarations of config/ and of the user's folders by section, with "tables" and "figures".

    :raises ConfigError: datasets.yaml, splits.yaml or algorithms.yaml is not a mapping.
    """
    declared: dict[str, Entries[Declared]] = {section: Entries() for section in SECTIONS | FILES}
    for section in ("datasets", "splits", "algorithms"):
        where, kind, valid = f"config/{section}.yaml", SECTIONS[section], declared[section]
        entries = strict_yaml.read(root / where, where)
        if not entries or not isinstance(entries, dict):
            kind.check(entries, where)
        for name, entry in entries.items():
            with valid.refusing(name):
                valid[name] = Declared(kind.check({name: entry}, where)[name], where, name)
    folders = {f"config/{section}": (section, root / "config" / section) for section in FILES}
    folders |= {folder: ("tables", Path(folder)) for folder in request.folders}
    files = ((at, *folder, path) for at, folder in folders.items() for path in parsed_files.listed(folder[1], ".yaml"))
    for folder, section, _, path in files:
        where = f"{folder}/{path.name}"
        with declared[section].refusing(path.stem):
            checks.check_id(path.stem, where)
            content = strict_yaml.read(path, where)
            is_figure = isinstance(content, dict) and content.get("kind", "results") != "results"
            kept = "figures" if folder in request.folders and is_figure else section
            if kept == "tables":
                document = _add(content, path, where, declared)
                if document is None:
                    continue
            if path.stem in declared[kept].declared:
                first = declared[kept][path.stem].file
                raise ConfigError(f"{where}: there is a {kept[:-1]} {path.stem!r} already, {first}")
            if kept != "tables":
                document = FILES[kept].check(content, where)
            declared[kept][path.stem] = Declared(document, where)
    for name in registry.names():
        checks.check_id(name, "folders: the file of an algorithm")
        if name not in declared["algorithms"].declared:
            declared["algorithms"][name] = Declared(AlgorithmDocument(), "config/algorithms.yaml", name)
    for name, entry in list(declared["figures"].items()):
        with declared["figures"].refusing(name):
            sweeps.declare_variants(entry, declared["algorithms"])
    return declared


def _add(content: Any, path: Path, where: str, declared: Mapping[str, Entries[Declared]]) -> TableDocument | None:
    """Add the declarations of a table's file to ``declared``; return its table, None for declarations alone.

    A file with a mistake, or with an id that another file declares differently, is refused with all its ids.
    """
    sections = {name: content[name] for name in SECTIONS if isinstance(content, dict) and name in content}
    ids = [(section, name) for section, part in sections.items() if isinstance(part, dict) for name in part]
    alone = sections and sections.keys() == content.keys()
    try:
        document = (DECLARATIONS if alone else TABLE).check(content, where)
        entries = {(section, name): getattr(document, section)[name] for section, name in ids}
        for (section, name), entry in entries.items():
            if section == "datasets":
                entries[section, name] = entry = data_sources.in_project(entry, path)
            if (earlier := declared[section].get(name)) and earlier.content != entry:
                already = f"{name!r} is declared already, in {earlier.where}, with other values"
                raise ConfigError(f"{where}: {section}: {already}; an id means one thing everywhere")
    except ConfigError as error:
        for section, name in ids:
            declared[section].refused.setdefault(name, error)
        raise
    for (section, name), entry in entries.items():
        declared[section].setdefault(name, Declared(entry, where, f"{section}.{name}"))
    return None if alone else document


def _catalog(declared: Mapping[str, Entries[Declared]], data: Mapping[str, Source]) -> Catalog:
    """Return the catalog of the ``declared`` entries; ``data``: dataset -> its source on this machine.

    An invalid entry raises its error when used.

    :raises ConfigError: ``data`` has an unknown dataset.
    """
    datasets, protocol_ids, splits, algorithms = (Entries(None, declared[section].refused) for section in SECTIONS)
    for name in data:
        lookup.check("dataset", name, declared["datasets"].declared, f"{WHERE}: data")
    sources, seen = {}, {}
    for name, entry in declared["datasets"].items():
        with datasets.refusing(name):
            datasets[name], sources[name] = _dataset(name, entry, data.get(name))
    for name, entry in declared["splits"].items():
        with splits.refusing(name):
            checks.check_split(name, declared["splits"], seen)
            splits[name] = entry.content
    for name, entry in declared["algorithms"].items():
        with algorithms.refusing(name):
            lookup.check_algorithm(base := without_label(name), registry.names(), entry.where)
            protocols.check_overrides(base, entry.content.set or {}, f"{entry.where}.set")
            plain = declared["algorithms"][base].content
            algorithms[name] = protocols.complete_algorithm(name, entry.content, plain)
    for name, entry in declared["protocols"].items():
        with protocol_ids.refusing(name):
            prefix = f"{entry.key}." if entry.key else ""
            resolved = protocols.variants(name, entry.content, entry.file, prefix)
            protocol_ids.update({protocol.id: protocol for protocol in resolved})
    for name, protocol in list(protocol_ids.items()):
        with protocol_ids.refusing(name):
            lookup.check("protocol", without_label(name), protocol_ids, protocol.file)
            checks.check_protocol(protocol, datasets, algorithms, splits)
    places = {name: entry.where for name, entry in declared["splits"].items()}
    files = declared["tables"], declared["figures"]
    return Catalog(datasets, splits, algorithms, protocol_ids, *files, sources, places)


def _dataset(name: str, declared: Declared, override: Source | None) -> tuple[DatasetDocument, Source]:
    """Return the complete dataset ``name`` and its source on this machine; ``override``: a source of the request.

    :raises MissingData: the images are absent, or not those that are declared.
    """
    source, location = declared.content.source, f"{declared.where}.source"
    if override:
        at = f"{WHERE}: data.{name}"
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
    return dataset, type(source)(**source.model_dump(exclude_unset=True, exclude={"images"}))


def _tables(request: Request, entries: Entries[Table]) -> dict[str, list[str] | None]:
    """Return the requested tables and their columns; None for the columns of a table whose data are missing.

    :raises ConfigError: a table or column does not exist, or a table is requested twice.
    """
    chosen: dict[str, list[str] | None] = {}
    for index, entry in enumerate(request.tables):
        where = f"{WHERE}: tables[{index}]"
        name, patterns = (entry, ["*"]) if isinstance(entry, str) else (entry.table, entry.columns)
        lookup.check("table", name, entries.declared, where)
        if name in chosen:
            raise ConfigError(f"{where}: table {name!r} is given twice; put all its columns into one entry")
        columns = entries[name].columns if name in entries else {}
        for pattern in patterns if columns else ():
            if not fnmatch.filter(columns, pattern):
                raise ConfigError(unknown("column", pattern, columns, f"{where}.columns ({name})"))
        chosen[name] = [id_ for id_ in columns if protocols.matching_any(patterns, id_)] or None
    return chosen
