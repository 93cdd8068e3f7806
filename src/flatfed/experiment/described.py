"""Columns of the tables that describe what is used, and train nothing: data sets, and searched hyper-parameters."""

from __future__ import annotations

from typing import Any

from flatfed.errors import ConfigError, unknown
from flatfed.experiment import compatibility
from flatfed.experiment.catalog import Catalog
from flatfed.experiment.model import Column
from flatfed.papers.metrics import METRICS
from flatfed.papers.metrics.facts import FACTS


def datasets(document: dict[str, Any], group: dict[str, Any], catalog: Catalog, where: str) -> list[Column]:
    """Return the column of a table that describes datasets: one fact of each row's."""
    fact = group.get("fact")
    if fact not in FACTS["count"]:
        raise ConfigError(unknown("fact", fact, FACTS["count"], f"{where}: fact"))
    if "split" in group and group["split"] not in catalog.splits:
        raise ConfigError(unknown("split", group["split"], catalog.splits, f"{where}: split"))
    headers = tuple(group[key] for key in ("header", "label") if key in group) or (METRICS[fact].words,)
    return [
        Column(
            group.get("id", fact), None, (), fact, "count", None, headers, group.get("part"),
            reference=group.get("reference", {}), settings=group,
        )
    ]  # fmt: skip


def search(document: dict[str, Any], group: dict[str, Any], catalog: Catalog, where: str) -> list[Column]:
    """Return the columns of a table of searched hyper-parameters: the grid's values, and the one chosen."""
    protocol = compatibility.protocol_of(group["protocol"], catalog, where)
    if "variant" not in group["reference"]:
        raise ConfigError(f"{where}: reference: key 'variant' is missing; kind search needs it")
    searched = protocol.scales["paper"].get("searched", {})
    if group["algorithm"] not in searched:
        raise ConfigError(unknown("algorithm", group["algorithm"], searched, f"{where}: algorithm"))
    grids = searched[group["algorithm"]].values()
    columns = []
    for place in [*range(1, max(map(len, grids)) + 1), 0]:
        name, variant = (f"grid{place}", f"grid;{place}") if place else ("best", "best")
        headers = (group.get("header", group["id"]), "Grid search" if place else "Best")
        settings_ = {**group, "place": place}
        variant = f"{group['reference']['variant']};{variant}"
        columns.append(
            Column(
                f"{group['id']}.{name}", protocol.id, (), "", "number", None, headers, group.get("part"),
                reference={"variant": variant}, settings=settings_,
            )
        )  # fmt: skip
    return columns
