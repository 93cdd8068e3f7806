"""config/config.yaml: what is asked for, and where data come from on this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from flatfed.errors import ConfigError, absent, unknown
from flatfed.experiment import schemas, settings, strict_yaml
from flatfed.experiment.catalog import Catalog, check_source
from flatfed.experiment.model import Figure, Table

#: The configuration can come from the file, the command line or both; messages say so.
FILE = "config/config.yaml"
WHERE = f"{FILE} or --config"

LAYOUT = "<domain>/<class>/<image>, with a folder for every domain"

#: Kind of source -> what its ``path`` must be, and the test of it.
ON_DISK = {
    "npz": (
        "a file with train_images, train_labels, test_images and test_labels, images uint8 (MedMNIST's layout)",
        Path.is_file,
    ),
    "imagefolder": (
        "a folder with train/<class>/<image> and test/<class>/<image>, or <domain>/<class>/<image> with domains: true",
        Path.is_dir,
    ),
}


def check(config: Any, where: str = WHERE) -> None:
    """Refuse a configuration, from ``where``, with a wrong key, type or value; ConfigError says which."""
    strict_yaml.check(config, where)
    schemas.validate(config, "config", where)


def check_file(path: Path) -> None:
    """Refuse a config.yaml at ``path``, where there is one, that cannot be read or has a wrong key, type or value."""
    if path.exists():
        check(strict_yaml.read(path, FILE), FILE)


def tables(config: dict[str, Any], known: dict[str, Table]) -> list[tuple[str, list[str]]]:
    """Return the tables asked for and their columns, in the tables' own order.

    :raises ConfigError: no such table or column, or a table is asked for twice.
    """
    chosen: dict[str, list[str]] = {}
    for place, entry in enumerate(config["tables"]):
        where = f"{WHERE}: tables[{place}]"
        name = entry if isinstance(entry, str) else entry["table"]
        if name not in known:
            raise ConfigError(unknown("table", name, known, where))
        if name in chosen:
            raise ConfigError(f"{where}: table {name!r} is given twice; one entry holds all its columns")
        columns = known[name].columns
        if isinstance(entry, str):
            chosen[name] = list(columns)
            continue
        wanted: set[str] = set()
        for pattern in entry["columns"]:
            found = settings.matching(pattern, columns)
            if not found:
                raise ConfigError(unknown("column", pattern, columns, f"{where}.columns ({name})"))
            wanted.update(found)
        chosen[name] = [id_ for id_ in columns if id_ in wanted]
    return list(chosen.items())


def figures(config: dict[str, Any], known: dict[str, Figure]) -> list[str]:
    """Return the figures asked for; ConfigError if there is no such figure."""
    for place, name in enumerate(config["figures"]):
        where = f"{WHERE}: figures[{place}]"
        if name not in known:
            raise ConfigError(unknown("figure", name, known, where))
    return list(config["figures"])


def sources(config: dict[str, Any], catalog: Catalog) -> dict[str, dict[str, Any]]:
    """Return the source of every dataset, those of ``data:`` in place of the declared ones, without their ``images``.

    :raises ConfigError: ``data:`` names no dataset, is no source, or points at nothing; a folder that is there lacks
        the folder of a domain.
    """
    for name, source in config.get("data", {}).items():
        where = f"{WHERE}: data"
        if name not in catalog.datasets:
            raise ConfigError(unknown("dataset", name, catalog.datasets, where))
        check_source(source, f"{where}.{name}", also=("images",))
        check_there(source, f"{where}.{name}")
        _check_domains(_at_home(source), catalog.datasets[name], f"{where}.{name}")
    for name, entry in catalog.datasets.items():
        if name not in config.get("data", {}):
            _check_domains(_at_home(entry["source"]), entry, f"config/datasets.yaml: {name}.source")
    own = {
        name: {key: value for key, value in source.items() if key != "images"}
        for name, source in config.get("data", {}).items()
    }
    every = {name: entry["source"] for name, entry in catalog.datasets.items()} | own
    return {name: _at_home(source) for name, source in every.items()}


def check_there(source: dict[str, Any], where: str) -> None:
    """Refuse a ``source`` on disk, declared in ``where``, that is not there, or a file for a folder and the reverse."""
    if source["source"] not in ON_DISK:
        return
    layout, exists = ON_DISK[source["source"]]
    path = Path(_at_home(source)["path"])
    if not exists(path):
        found = "does not exist" if not path.exists() else f"is a {'folder' if path.is_dir() else 'file'}"
        raise ConfigError(f"{where}.path: {source['path']!r} {found}; wanted: {layout}")


def _at_home(source: dict[str, Any]) -> dict[str, Any]:
    """Return ``source`` with the user's home in the place of a ``~`` that its path begins with."""
    return {**source, "path": str(Path(source["path"]).expanduser())} if "path" in source else source


def counted(config: dict[str, Any], catalog: Catalog) -> Catalog:
    """Return ``catalog`` with the numbers of images that sources of ``data:`` declare in place of the entries' own."""
    own = {name: source.get("images", {}) for name, source in config.get("data", {}).items()}
    return replace(catalog, datasets={name: {**entry, **own.get(name, {})} for name, entry in catalog.datasets.items()})


def _check_domains(source: dict[str, Any], dataset: dict[str, Any], where: str) -> None:
    """Refuse a source by domains that lists others than ``dataset`` has, or whose folder, once there, lacks one."""
    if not source.get("domains"):
        return
    if "domains" not in dataset:
        raise ConfigError(f"{where}.domains: means nothing; the dataset has no `domains` in config/datasets.yaml")
    domains, listed = dataset["domains"], source["domains"]
    wanted = listed if isinstance(listed, list) else domains
    key = "path" if wanted is domains else "domains"
    if len(wanted) != len(domains):
        raise ConfigError(
            f"{where}.domains: {len(wanted)} folders are listed; one for each of the {len(domains)} domains is wanted, "
            f"in this order: {', '.join(domains)}"
        )
    root = Path(source["path"])
    present = [each.name for each in root.iterdir() if each.is_dir()] if root.is_dir() else wanted
    for folder in wanted:
        if folder not in present:
            hint = f". {source['obtain']}" if "obtain" in source else ""
            place = f"{where}.{key}: {str(root)!r}"
            raise ConfigError(f"{absent('domain folder', folder, present, place)}; wanted: {LAYOUT}{hint}")
