"""Loading of config/ and of the user's folders into an :class:`Experiment`."""

from __future__ import annotations

import fnmatch
import os
import re
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
from flatfed.config.table import DECLARATIONS, TABLE
from flatfed.errors import ConfigError, unknown
from flatfed.plan import checks, data_sources, figures, lookup, protocols, reference, sweeps, tables
from flatfed.plan.catalog import Catalog
from flatfed.plan.experiment import Experiment, Requested
from flatfed.plan.figures import Figure
from flatfed.plan.lookup import Declared, Mistakes
from flatfed.plan.tables import Table
from flatfed.runs.paths import DEFAULT, Paths, without_label
from flatfed.runs.store import Store, check_has_runs
from flatfed.user_files import CALLBACKS, FOLDERS, kind_of

#: Locations of the configuration in messages.
FILE = "config/config.yaml"
WHERE = f"{FILE} or --config"

#: Key of a table file that declares entries -> type of the file of this name.
SECTIONS = {"datasets": DATASETS, "protocols": PROTOCOL, "splits": SPLITS, "algorithms": ALGORITHMS}

#: Folder of config/ -> type of its files.
FILES = {"protocols": PROTOCOL, "tables": TABLE, "figures": FIGURE}


def load(root: str | Path, config: dict[str, Any] | None = None, paths: Paths = DEFAULT) -> Experiment:
    """Return the experiment of ``root``/config; ``config``: config.yaml with the command line (None: the file alone).

    :raises ConfigError: a line for each mistake of config.yaml, else of all files. What uses a wrong entry is not
        checked against it.
    """
    root = Path(root)
    # Snakemake, which merges the file into ``config``, accepts duplicate keys.
    request = read(root / FILE)
    if config is not None:
        request = REQUEST.check(config, WHERE)
    mistakes = Mistakes()
    environment = _user_folders(request, mistakes)
    declared = _declarations(root, request, mistakes)
    catalog = _catalog(declared, request.data, mistakes)
    references = reference.read_all(root, mistakes)
    errata = reference.read_errata(root, references, mistakes)
    all_tables: dict[str, Table] = {}
    all_figures: dict[str, Figure] = {}
    for name, entry in declared["tables"].items():
        with mistakes.noted([("table", name)]):
            all_tables[name] = tables.table(name, entry, catalog, references)
    for name, entry in declared["figures"].items():
        with mistakes.noted([("figure", name)]):
            all_figures[name] = figures.figure(name, entry, catalog)
    checks.check_different(catalog.splits, catalog.split_places, mistakes)
    for index, name in enumerate(request.figures):
        mistakes.note(lookup.check, "figure", name, all_figures, f"{WHERE}: figures[{index}]")
    if request.highlight:
        mistakes.note(lookup.check_algorithm, request.highlight, catalog.algorithms, f"{WHERE}: highlight")
    requested = Requested(_tables(request, all_tables, mistakes), request.figures)
    mistakes.stop()
    # Tables must fit the declared datasets. Smaller local data must fit the requested tables alone.
    here = {name: dict(source.images or {}) for name, source in request.data.items()}
    counted = {
        name: LocalDataset.model_construct(
            **{**vars(entry), "declared_images": entry.train + entry.test, **here.get(name, {})}
        )
        for name, entry in catalog.datasets.items()
    }
    catalog, store = replace(catalog, datasets=counted), Store(request.published)
    shown = references, errata, all_tables, all_figures
    return Experiment(root, request, paths, catalog, *shown, requested, environment, store)


def read(path: Path) -> Request:
    """Return the config.yaml at ``path``; ConfigError for a wrong key, type or value."""
    return REQUEST.check(strict_yaml.read(path, FILE), FILE)


def _user_folders(request: Request, mistakes: Mistakes) -> dict[str, str]:
    """Register the user's files; return the environment variables for jobs.

    :raises ConfigError: a folder or file is absent or wrong.
    """
    for folder in request.folders:
        if not Path(folder).is_dir():
            absent = f"{WHERE}: folders: there is no folder {folder!r} ({Path(folder).absolute()})"
            mistakes.add(f"{absent}; create it, or correct or remove this entry")
    for folder in request.published:
        mistakes.note(check_has_runs, folder, f"{WHERE}: published", so_far=False)
    for file in request.callbacks:
        with mistakes.noted():
            if kind_of(Path(file)) != "callback":
                absent = "no class of it has the base Callback" if Path(file).is_file() else "there is no such file"
                raise ConfigError(f"{WHERE}: callbacks: {file}: {absent}; see docs/questions.md")
    for files in (registry.FILES, models.FILES):
        mistakes.note(files.look_in, request.folders, f"{WHERE}: folders")
    mistakes.stop()
    paths = {FOLDERS: request.folders, CALLBACKS: request.callbacks}
    return {key: os.pathsep.join(str(Path(path).resolve()) for path in paths[key]) for key in paths if paths[key]}


def _declarations(root: Path, request: Request, mistakes: Mistakes) -> dict[str, dict[str, Declared]]:
    """Return the declarations of config/ and of the user's folders by section, with "tables" and "figures"."""
    declared: dict[str, dict[str, Declared]] = {section: {} for section in SECTIONS | FILES}
    for section in ("datasets", "splits", "algorithms"):
        where, kind = f"config/{section}.yaml", SECTIONS[section]
        with mistakes.noted([(section[:-1], lookup.ALL)]):
            entries = strict_yaml.read(root / where, where)
            if not entries or not isinstance(entries, dict):
                kind.check(entries, where)
            for name, entry in entries.items():
                with mistakes.noted([(section[:-1], name)]):
                    declared[section][name] = Declared(kind.check({name: entry}, where)[name], where, name)
    folders = {f"config/{section}": (section, root / "config" / section) for section in FILES}
    folders |= {folder: ("tables", Path(folder)) for folder in request.folders}
    for at, (section, folder) in folders.items():
        for path in parsed_files.listed(folder, ".yml"):
            text = path.read_text(encoding="utf-8", errors="ignore")
            if at in request.folders and not re.search("^(columns|panels):", text, re.MULTILINE):
                continue  # a file of another program
            with mistakes.noted([(section[:-1], path.stem), ("figure", path.stem)]):
                raise ConfigError(f"{at}/{path.name}: FlatFed reads files .yaml; name it {path.stem}.yaml")
    files = ((at, *folder, path) for at, folder in folders.items() for path in parsed_files.listed(folder[1], ".yaml"))
    for folder, section, _, path in files:
        where = f"{folder}/{path.name}"
        ids = [(section[:-1], path.stem), *([("figure", path.stem)] if folder in request.folders else ())]
        with mistakes.noted(ids):
            content = strict_yaml.read(path, where)
            keys = content if isinstance(content, dict) else {}
            if folder in request.folders and keys.get("kind", "results") != "results":
                section = "figures"
            parts = SECTIONS.keys() & keys.keys() if section == "tables" else set()
            ids += [(part[:-1], name) for part in parts if isinstance(keys[part], dict) for name in keys[part]]
            _add(content, parts, path, section, where, declared)
    for name in registry.names():
        with mistakes.noted([("algorithm", name)]):
            checks.check_id(name, "folders: the file of an algorithm")
            declared["algorithms"].setdefault(name, Declared(AlgorithmDocument(), "config/algorithms.yaml", name))
    for entry in declared["figures"].values():
        mistakes.note(sweeps.declare_variants, entry, declared["algorithms"])
    return declared


def _add(
    content: Any, parts: set[str], path: Path, section: str, where: str, declared: dict[str, dict[str, Declared]]
) -> None:
    """Add the ``content`` of a file of a ``section``, and the ``parts`` that it declares, to ``declared``.

    :raises ConfigError: it is no valid document, or an id means something else already.
    """
    checks.check_id(path.stem, where)
    alone = parts and parts == content.keys()
    document = (DECLARATIONS if alone else FILES[section]).check(content, where)
    for part in parts:
        for name, entry in getattr(document, part).items():
            if part == "datasets":
                entry = data_sources.in_project(entry, path)
            earlier = declared[part].setdefault(name, Declared(entry, where, f"{part}.{name}"))
            if earlier.content != entry:
                already = f"{name!r} is declared already, in {earlier.where}, with other values"
                raise ConfigError(f"{where}: {part}: {already}; an id means one thing everywhere")
    if not alone and (first := declared[section].setdefault(path.stem, Declared(document, where))).file != where:
        raise ConfigError(f"{where}: there is a {section[:-1]} {path.stem!r} already, {first.file}")


def _catalog(
    declared: Mapping[str, Mapping[str, Declared]], data: Mapping[str, Source], mistakes: Mistakes
) -> Catalog:
    """Return the catalog of the valid ``declared`` entries; ``data``: dataset -> its source on this machine."""
    datasets, sources, splits, algorithms, protocols_of = {}, {}, {}, {}, {}
    for name in data:
        mistakes.note(lookup.check, "dataset", name, declared["datasets"], f"{WHERE}: data")
    for name, entry in declared["datasets"].items():
        with mistakes.noted([("dataset", name)]):
            datasets[name], sources[name] = _dataset(name, entry, data.get(name))
    all_splits = {name: entry.content for name, entry in declared["splits"].items()}
    for name, entry in declared["splits"].items():
        with mistakes.noted([("split", name)]):
            checks.check_split(entry.content, all_splits, entry.where)
            splits[name] = entry.content
    files = registry.names()
    for name, entry in declared["algorithms"].items():
        with mistakes.noted([("algorithm", name)]):
            lookup.check_algorithm(base := without_label(name), files, entry.where)
            protocols.check_overrides(base, entry.content.set or {}, f"{entry.where}.set")
            plain = declared["algorithms"][base].content
            algorithms[name] = protocols.complete_algorithm(name, entry.content, plain)
    places = {name: entry.where for name, entry in declared["splits"].items()}
    catalog = Catalog(datasets, splits, algorithms, protocols_of, sources, places)
    for name, entry in declared["protocols"].items():
        with mistakes.noted([("protocol", name)]):
            prefix = f"{entry.key}." if entry.key else ""
            plain, *variants = protocols.variants(name, entry.content, entry.file, prefix)
            checks.check_protocol(plain, catalog)
            protocols_of[name] = plain
            for variant in variants:  # which inherit the mistakes of the plain one
                with mistakes.noted([("protocol", variant.id)]):
                    checks.check_protocol(variant, catalog)
                    protocols_of[variant.id] = variant
    return catalog


def _dataset(name: str, declared: Declared, override: Source | None) -> tuple[DatasetDocument, Source]:
    """Return the complete dataset ``name`` and its source on this machine; ``override``: a source of the request.

    :raises FlatFedError: the images are absent but needed here, or are not those that are declared.
    """
    source, location = declared.content.source, f"{declared.where}.source"
    if override:
        at = f"{WHERE}: data.{name}"
        data_sources.check_resize(override, source, at, location)
        source, location = override, at
        data_sources.check_exists(source, location)
    dataset = data_sources.complete(name, declared.content, source, declared.where)
    source = data_sources.expanded(source)
    if override:
        data_sources.check_order(source, source.images or dataset, location)
    data_sources.check_domains(source, dataset, location)
    data_sources.check_channels(dataset, declared.where)
    return dataset, type(source)(**source.model_dump(exclude_unset=True, exclude={"images"}))


def _tables(request: Request, entries: Mapping[str, Table], mistakes: Mistakes) -> dict[str, list[str] | None]:
    """Return the requested tables and their columns, None for all."""
    chosen: dict[str, list[str] | None] = {}
    for index, entry in enumerate(request.tables):
        where = f"{WHERE}: tables[{index}]"
        name, patterns = (entry, ["*"]) if isinstance(entry, str) else (entry.table, entry.columns)
        with mistakes.noted():
            columns = lookup.entry("table", name, entries, where).columns
            if name in chosen:
                raise ConfigError(f"{where}: table {name!r} is given twice; put all its columns into one entry")
            for pattern in patterns:
                if not fnmatch.filter(columns, pattern):
                    raise ConfigError(unknown("column", pattern, columns, f"{where}.columns ({name})"))
            chosen[name] = [id_ for id_ in columns if protocols.matching_any(patterns, id_)]
    return chosen
