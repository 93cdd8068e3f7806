"""Columns and numbers of tables without runs: datasets and searched hyper-parameters.

``group``: an entry of ``columns:`` in the table file.
"""

from __future__ import annotations

from typing import Any

from flatfed import algorithms as registry
from flatfed.errors import ConfigError
from flatfed.experiment import compatibility, lookup, protocols
from flatfed.experiment.catalog import Catalog
from flatfed.experiment.model import Column, Row
from flatfed.papers.metrics import METRICS
from flatfed.papers.metrics.facts import FACTS


def dataset_columns(document: dict[str, Any], group: dict[str, Any], catalog: Catalog, where: str) -> list[Column]:
    """Return the column of a table of datasets: one fact per dataset."""
    fact = group.get("fact")
    lookup.check("fact", fact, FACTS["count"], f"{where}: fact")
    if "split" in group:
        lookup.check("split", group["split"], catalog.splits, f"{where}: split")
    headers = tuple(group[key] for key in ("header", "label") if key in group) or (METRICS[fact].words,)
    return [
        Column(
            group.get("id", fact), None, (), fact, "count", None, headers, group.get("part"),
            reference=group.get("reference", {}), settings=group,
        )
    ]  # fmt: skip


def search_columns(document: dict[str, Any], group: dict[str, Any], catalog: Catalog, where: str) -> list[Column]:
    """Return the columns of searched hyper-parameters: the grid and the chosen value."""
    protocol = compatibility.protocol_of(group["protocol"], catalog, where)
    if "variant" not in group["reference"]:
        raise ConfigError(f"{where}: reference: key 'variant' is missing; kind search needs it")
    searched = protocol.paper.searched
    lookup.check("algorithm", group["algorithm"], searched, f"{where}: algorithm")
    grids = searched[group["algorithm"]].values()
    columns = []
    for index in [*range(1, max(map(len, grids)) + 1), 0]:  # 0: the chosen value
        name, variant = (f"grid{index}", f"grid;{index}") if index else ("best", "best")
        headers = (group.get("header", group["id"]), "Grid search" if index else "Best")
        columns.append(
            Column(
                f"{group['id']}.{name}", protocol.id, (), "", "number", None, headers, group.get("part"),
                reference={"variant": f"{group['reference']['variant']};{variant}"}, settings={**group, "place": index},
            )
        )  # fmt: skip
    return columns


def cell_number(catalog: Catalog, scale: str, column: Column, row: Row) -> float | None:
    """Return a cell's number, None if it does not apply."""
    return (_of_dataset if column.metric else _searched)(catalog, scale, column, row)


def _of_dataset(catalog: Catalog, scale: str, column: Column, row: Row) -> float | None:
    protocol = row.settings["protocol"]
    if column.metric == "clients":
        split = column.settings.get("split")
        return None if split is None else catalog.split_settings(scale, protocol, split).partition["clients"]
    dataset = catalog.dataset(scale, protocol)
    facts = dict(zip(("image_channels", "image_height", "image_width"), dataset.shape, strict=True))
    facts |= {"train_samples": dataset.train, "test_samples": dataset.test, "classes": dataset.classes}
    facts |= {"total_samples": dataset.train + dataset.test, "domains": len(dataset.domains or []) or None}
    return facts[column.metric]


def _searched(catalog: Catalog, scale: str, column: Column, row: Row) -> float | None:
    algorithm, key, index = column.settings["algorithm"], row.settings["key"], column.settings["place"]
    if key not in registry.load(algorithm).parameters() and key not in protocols.OWN_TRAINING:
        return None
    if index:
        grid = catalog.settings(scale, column.protocol).searched[algorithm].get(key, [])
        number = grid[index - 1] if index <= len(grid) else None
    else:
        training, parameters = catalog.hyperparameters(scale, column.protocol, algorithm)
        number = parameters[key] if key in parameters else training[key]
    return 1 / number if number and row.settings.get("reciprocal") else number
