"""What a paper tuned without saying what it chose: the grids under ``tune:``, the runs that try them, the choices made.

A search is one choice: every point of a row's grid is trained once, on the training images less a validation part of
every client's, and the point with the best accuracy on the validation parts is chosen: of all of them together, or the
mean over clients, as the protocol's ``accuracy`` is. The test images have no part in it. With ``tune: true`` in
config.yaml, runs take the choices recorded; without it, what the protocol says.
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
from flatfed.runs import choice as choices
from flatfed.runs.choice import Point, Search, TuningChoice
from flatfed.runs.places import Places, RunIds
from flatfed.runs.run import Run

#: Values of a key that are tried at preview scale: the first ones of its grid.
PREVIEW_VALUES = 3


def check(protocol: settings.Protocol, catalog: Catalog) -> None:
    """Refuse a ``tune:`` that cannot be carried out; that its keys and values fit its rows is checked elsewhere.

    :raises ConfigError: there is no such split, the dataset or a row does not fit it, or its clients have too few
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
    """Refuse a validation share that is less than one image of a client's."""
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
    """Return the search whose choice the run of these ids takes, None where the paper tuned nothing of it.

    Labelled variants take the choice of the protocol and of the row that they are variants of. Where ``tune:`` names a
    split, the choice is made on that one for all; else every split has a choice of its own.

    :raises ConfigError: the clients of the split have too few images to hold a part of them out.
    """
    plain = catalog.protocols[protocol.partition("~")[0]]
    tune = plain.scales[scale].get("tune", {"grids": {}})
    owner = next((name for name in (row, row.partition("~")[0]) if name in tune["grids"]), None)
    if owner is None:
        return None
    place = tune.get("split", split)
    _check_share(plain, place, scale, catalog)
    most = PREVIEW_VALUES if scale == "preview" else None
    grid = {key: tried[:most] for key, tried in tune["grids"][owner].items()}
    of = {"scale": scale, "protocol": plain.id, "split": place, "row": owner}
    return Search(**of, seed=tune["seed"], validation=tune["validation"], grid=grid)


def keys(values: dict[str, Any]) -> set[str]:
    """Return the keys that a protocol's ``values`` give grids of, for whatever row."""
    return {key for grid in values.get("tune", {"grids": {}})["grids"].values() for key in grid}


def open_keys(catalog: Catalog, found: Search | None, protocol: str, row: str) -> list[str]:
    """Return the keys of a search that a run of ``protocol`` and ``row`` takes its choice of: those it does not set."""
    if found is None:
        return []
    own = {}
    if row != found.row:
        of_protocol = catalog.values(found.scale, protocol)["algorithms"].get(row, {})
        own = {**catalog.algorithms[row].get("set", {}), **of_protocol}
    both = (catalog.hyperparameters(found.scale, name, found.row) for name in (found.protocol, protocol))
    before, after = ({**training, **parameters} for training, parameters in both)
    return [key for key in found.grid if key not in own and before[key] == after[key]]


def searches_of(catalog: Catalog, places: Places, runs: Iterable[Run]) -> list[Search]:
    """Return the searches whose choices ``runs`` take, each once."""
    found = {}
    for ids in dict.fromkeys((run.scale, run.protocol, run.split, run.algorithm) for run in runs):
        one = search(catalog, *ids)
        if open_keys(catalog, one, ids[1], ids[3]):
            found[one.folder(places)] = one
    return list(found.values())


def search_at(catalog: Catalog, places: Places, scale: str, protocol: str, split: str, row: str) -> Search:
    """Return the search in ``results/<scale>/tuning/<protocol>/<split>/<row>``.

    :raises ConfigError: nothing is tuned there.
    """
    where = f"{places.results}/{scale}/tuning"
    known.check("protocol", protocol, catalog.protocols, where)
    known.check("split", split, catalog.splits, where)
    known.check("algorithm", row, catalog.algorithms, where)
    found = search(catalog, scale, protocol, split, row)
    if found is None or (found.protocol, found.split, found.row) != (protocol, split, row):
        elsewhere = "nothing of it" if found is None else f"that in {found.folder(places)}"
        raise ConfigError(f"{places.search(scale, protocol, split, row)}: the paper tuned {elsewhere}")
    return found


def run(catalog: Catalog, places: Places, found: Search, point: str) -> Run:
    """Return the run that tries ``point``: the ordinary one with the point's values, on a validation part.

    :raises ConfigError: the grid has no such point.
    """
    points = found.combinations()
    known.check("point", point, points, found.folder(places))
    ids = RunIds(found.scale, found.protocol, found.split, found.row, found.seed)
    plain = descriptions.resolve(catalog, places, ids, points[point])
    description = {key: value for key, value in plain.description.items() if key != "probe"}
    accuracy = catalog.values(found.scale, found.protocol)["accuracy"]
    own = ["clients"] if accuracy == "client_test_accuracy" else []
    description["evaluation"] = {**description["evaluation"], "sets": ["validation", *own]}
    description["validation"] = found.validation
    return replace(plain, path=f"{found.folder(places)}/{point}", description=description)


def choice_spec(catalog: Catalog, places: Places, found: Search) -> TuningChoice:
    """Return what ``flatfed choose`` takes: what is searched, and for every point its run and that run's digest."""
    values, points = catalog.values(found.scale, found.protocol), []
    for name, point in found.combinations().items():
        tried = run(catalog, places, found, name)
        points.append(Point(values=point, run=tried.path, description_digest=digest_json(tried.description)))
    accuracy = values["accuracy"].replace("test", "validation")
    return TuningChoice(**vars(found), window=values["evaluation"]["window"], accuracy=accuracy, points=points)


def choice_path(places: Places, found: Search) -> str:
    """Return the path of a choice."""
    return f"{found.folder(places)}/choice.json"


def chosen(catalog: Catalog, places: Places, ids: RunIds) -> dict[str, float]:
    """Return the values that the run of ``ids`` takes from the choices made; none where nothing of it is tuned.

    :raises ConfigError: a choice that it takes is not there, or not the one that the configuration asks for.
    """
    found = search(catalog, ids.scale, ids.protocol, ids.split, ids.algorithm)
    keys = open_keys(catalog, found, ids.protocol, ids.algorithm)
    return {key: _recorded(catalog, places, found.scale, found.protocol, found.split, found.row)[key] for key in keys}


@functools.cache
def _recorded(catalog: Catalog, places: Places, *ids: str) -> dict[str, float]:
    """Return the values chosen by the search of ``ids``: scale, protocol, split and row.

    :raises ConfigError: nothing is recorded yet, or a choice for another grid, seed, share or set-up.
    """
    found = search_at(catalog, places, *ids)
    path = choice_path(places, found)
    again = f"snakemake --cores all --config scale={found.scale} -- {path}"
    try:
        recorded = choices.read(path)
    except FileNotFoundError:
        raise ConfigError(
            f"tune: true wants the choice in {path}, which is not made yet; make it: {again} (the rule `tuning` makes "
            "those of all tables and figures of config.yaml)"
        ) from None
    except DataError as error:
        raise ConfigError(str(error)) from error
    wanted = choice_spec(catalog, places, found)
    for key in ("grid", "seed", "validation", "window", "accuracy"):
        had, now = getattr(recorded, key), getattr(wanted, key)
        if had != now:
            said = f"was chosen with {key} {json.dumps(had)}, but the configuration has {json.dumps(now)}"
            raise ConfigError(f"{path}: {said}; make it again: {again}")
    if [point.description_digest for point in recorded.points] != [each.description_digest for each in wanted.points]:
        raise ConfigError(f"{path}: was chosen in another set-up than {found.protocol} now has; make it again: {again}")
    if recorded.chosen not in found.combinations().values():
        wrong = f"chosen is {json.dumps(recorded.chosen)}, no point of the grid"
        raise ConfigError(f"{path}: {wrong}; make it again: {again}")
    return recorded.chosen
