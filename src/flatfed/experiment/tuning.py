"""Tuning of hyper-parameters that a paper does not state: the grids under ``tune:``, their runs, and the choices.

A search trains every point of a row's grid once, without a validation part of every client's training images. It
chooses the point with the best accuracy on the validation parts, pooled or averaged over clients as the protocol's
``accuracy``. It does not use the test images. With ``tune: true`` in config.yaml, runs use the recorded choices;
otherwise they use the protocol's values.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from flatfed.errors import ConfigError, DataError
from flatfed.experiment import compatibility, descriptions, known, settings
from flatfed.experiment.catalog import Catalog
from flatfed.files import digest_json
from flatfed.runs import tuning_choice
from flatfed.runs.paths import Paths, RunIds
from flatfed.runs.run import Run
from flatfed.runs.tuning_choice import Point, Search, TuningChoice

#: Number of values per key at preview scale: the first values of its grid.
PREVIEW_VALUES = 3


def check(protocol: settings.Protocol, catalog: Catalog) -> None:
    """Refuse an impossible ``tune:``; :mod:`flatfed.experiment.checks` checks its keys and values.

    :raises ConfigError: the split does not exist, does not fit the dataset or a row, or its clients have too few
        images.
    """
    tune = protocol.scales["paper"].get("tune", {})
    if "split" not in tune or tune["split"] in catalog.splits.refused:
        return
    where = f"{protocol.file}: {protocol.under}tune.split"
    known.check("split", tune["split"], catalog.splits, where)
    compatibility.check(protocol.id, tune["split"], catalog, where)
    for row in filter(catalog.algorithms.get, tune["grids"]):
        compatibility.check_pair(protocol.id, tune["split"], row, catalog, where)
    for scale in protocol.scales:
        _check_share(protocol, tune["split"], scale, catalog)


def _check_share(protocol: settings.Protocol, split: str, scale: str, catalog: Catalog) -> None:
    """Refuse a validation share of less than one image per client."""
    values = protocol.scales[scale]
    deal = catalog.deal(scale, protocol.id, split)
    images = deal.images // deal.partition["clients"]
    share = values["tune"]["validation"]
    if share * images < 1:
        raise ConfigError(
            f"{protocol.file}: {protocol.under}tune.validation: {share:g} of the {images} images that a client of "
            f"split {split!r} has at {scale} scale is less than one; at least {1 / images:.2g} is wanted"
        )


def search(catalog: Catalog, scale: str, protocol: str, split: str, row: str) -> Search | None:
    """Return the search whose choice the run of these ids uses, or None.

    Labelled variants use the search of their plain protocol and row. If ``tune:`` names a split, all splits use its
    search; otherwise every split has its own search.

    :raises ConfigError: the clients of the split have too few images for a validation part.
    """
    plain = catalog.protocols[protocol.partition("~")[0]]
    tune = plain.scales[scale].get("tune", {"grids": {}})
    owner = next((name for name in (row, row.partition("~")[0]) if name in tune["grids"]), None)
    if owner is None:
        return None
    tuned_split = tune.get("split", split)
    _check_share(plain, tuned_split, scale, catalog)
    most = PREVIEW_VALUES if scale == "preview" else None
    grid = {key: tried[:most] for key, tried in tune["grids"][owner].items()}
    ids = {"scale": scale, "protocol": plain.id, "split": tuned_split, "row": owner}
    return Search(**ids, seed=tune["seed"], validation=tune["validation"], grid=grid)


def keys(values: dict[str, Any]) -> set[str]:
    """Return the keys of all grids in a protocol's ``values``."""
    return {key for grid in values.get("tune", {"grids": {}})["grids"].values() for key in grid}


def open_keys(catalog: Catalog, source: Search | None, protocol: str, row: str) -> list[str]:
    """Return the keys of a search whose chosen values a run of ``protocol`` and ``row`` uses: those it does not set."""
    if source is None:
        return []
    overrides = {}
    if row != source.row:
        of_protocol = catalog.values(source.scale, protocol)["algorithms"].get(row, {})
        overrides = {**catalog.algorithms[row].get("set", {}), **of_protocol}
    settings_pair = (catalog.hyperparameters(source.scale, name, source.row) for name in (source.protocol, protocol))
    before, after = ({**training, **parameters} for training, parameters in settings_pair)
    return [key for key in source.grid if key not in overrides and before[key] == after[key]]


def searches_of(catalog: Catalog, paths: Paths, runs: Iterable[Run]) -> list[Search]:
    """Return the searches whose choices ``runs`` use, without duplicates."""
    searches = {}
    for ids in dict.fromkeys((run.scale, run.protocol, run.split, run.algorithm) for run in runs):
        candidate = search(catalog, *ids)
        if open_keys(catalog, candidate, ids[1], ids[3]):
            searches[candidate.folder(paths)] = candidate
    return list(searches.values())


def search_at(catalog: Catalog, paths: Paths, scale: str, protocol: str, split: str, row: str) -> Search:
    """Return the search in ``results/<scale>/tuning/<protocol>/<split>/<row>``.

    :raises ConfigError: this folder has no search.
    """
    where = f"{paths.results}/{scale}/tuning"
    known.check("protocol", protocol, catalog.protocols, where)
    known.check("split", split, catalog.splits, where)
    known.check("algorithm", row, catalog.algorithms, where)
    actual = search(catalog, scale, protocol, split, row)
    if actual is None or (actual.protocol, actual.split, actual.row) != (protocol, split, row):
        elsewhere = "nothing of it" if actual is None else f"that in {actual.folder(paths)}"
        raise ConfigError(f"{paths.search(scale, protocol, split, row)}: the paper tuned {elsewhere}")
    return actual


def run(catalog: Catalog, paths: Paths, source: Search, point: str) -> Run:
    """Return the run that tries ``point``: the plain run with the point's values and a validation part.

    :raises ConfigError: the grid has no such point.
    """
    points = source.combinations()
    known.check("point", point, points, source.folder(paths))
    ids = RunIds(source.scale, source.protocol, source.split, source.row, source.seed)
    plain = descriptions.resolve(catalog, paths, ids, points[point])
    description = {key: value for key, value in plain.description.items() if key != "probe"}
    accuracy = catalog.values(source.scale, source.protocol)["accuracy"]
    client_sets = ["clients"] if accuracy == "client_test_accuracy" else []
    description["evaluation"] = {**description["evaluation"], "sets": ["validation", *client_sets]}
    description["validation"] = source.validation
    return replace(plain, path=f"{source.folder(paths)}/{point}", description=description)


def choice_spec(catalog: Catalog, paths: Paths, source: Search) -> TuningChoice:
    """Return the input of ``flatfed choose``: the search, and the run of every point with its digest."""
    values, points = catalog.values(source.scale, source.protocol), []
    for name, point in source.combinations().items():
        tried = run(catalog, paths, source, name)
        points.append(Point(values=point, run=tried.path, description_digest=digest_json(tried.description)))
    accuracy = values["accuracy"].replace("test", "validation")
    return TuningChoice(**vars(source), window=values["evaluation"]["window"], accuracy=accuracy, points=points)


def choice_path(paths: Paths, source: Search) -> str:
    """Return the path of the choice of a search."""
    return f"{source.folder(paths)}/choice.json"


def chosen(catalog: Catalog, paths: Paths, ids: RunIds) -> dict[str, float]:
    """Return the tuned values that the run of ``ids`` uses; empty without tuning.

    :raises ConfigError: a choice that it needs is missing or stale.
    """
    query = search(catalog, ids.scale, ids.protocol, ids.split, ids.algorithm)
    keys = open_keys(catalog, query, ids.protocol, ids.algorithm)
    return {key: _recorded(catalog, paths, query.scale, query.protocol, query.split, query.row)[key] for key in keys}


@functools.cache
def _recorded(catalog: Catalog, paths: Paths, *ids: str) -> dict[str, float]:
    """Return the values chosen by the search of ``ids``: scale, protocol, split and row.

    :raises ConfigError: the choice is missing, or was made with another grid, seed, share or set-up.
    """
    query = search_at(catalog, paths, *ids)
    path = choice_path(paths, query)
    again = f"snakemake --cores all --config scale={query.scale} -- {path}"
    try:
        recorded = tuning_choice.read(path)
    except FileNotFoundError:
        raise ConfigError(
            f"tune: true wants the choice in {path}, which is not made yet; make it: {again} (the rule `tuning` makes "
            "those of all tables and figures of config.yaml)"
        ) from None
    except DataError as error:
        raise ConfigError(str(error)) from error
    expected = choice_spec(catalog, paths, query)
    for key in ("grid", "seed", "validation", "window", "accuracy"):
        had, now = getattr(recorded, key), getattr(expected, key)
        if had != now:
            difference = f"was chosen with {key} {json.dumps(had)}, but the configuration has {json.dumps(now)}"
            raise ConfigError(f"{path}: {difference}; make it again: {again}")
    if [p.description_digest for p in recorded.points] != [p.description_digest for p in expected.points]:
        raise ConfigError(f"{path}: was chosen in another set-up than {query.protocol} now has; make it again: {again}")
    if recorded.chosen not in query.combinations().values():
        problem = f"chosen is {json.dumps(recorded.chosen)}, no point of the grid"
        raise ConfigError(f"{path}: {problem}; make it again: {again}")
    return recorded.chosen
