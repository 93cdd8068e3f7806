"""Tuning of hyper-parameters that a paper does not state.

A search trains every point of a grid under ``tune:`` without a validation part of every client's training images. It
chooses the point with the best validation accuracy, pooled or averaged as the protocol's ``accuracy``.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from dataclasses import replace

from flatfed.config.protocol import Settings
from flatfed.engine import versions
from flatfed.errors import ConfigError, DataError
from flatfed.files import digest_json
from flatfed.plan import lookup
from flatfed.plan.catalog import Catalog
from flatfed.plan.protocols import ResolvedProtocol
from flatfed.runs import record as records
from flatfed.runs import tuning_choice
from flatfed.runs.paths import Paths, RunIds, without_label
from flatfed.runs.record import RECORD
from flatfed.runs.run import Run
from flatfed.runs.tuning_choice import Point, Search, TuningChoice

#: Number of values of each key that the preview tries.
PREVIEW_VALUES = 3


def check(protocol: ResolvedProtocol, catalog: Catalog) -> None:
    """Refuse a ``tune:`` whose split does not exist, does not fit, or has too few images per client."""
    tune = protocol.at_paper_scale.tune
    if not tune or not tune.split or tune.split in catalog.splits.refused:
        return
    where = f"{protocol.file}: {protocol.under}tune.split"
    lookup.check("split", tune.split, catalog.splits, where)
    catalog.check_fit(protocol.id, tune.split, where)
    for row in filter(catalog.algorithms.get, tune.grids):
        catalog.check_pair(protocol.id, tune.split, row, where)
    for scale in protocol.scales:
        _check_share(protocol, tune.split, scale, catalog)


def _check_share(protocol: ResolvedProtocol, split: str, scale: str, catalog: Catalog) -> None:
    resolved_split = catalog.split_settings(scale, protocol.id, split)
    images = resolved_split.images // resolved_split.partition.clients
    share = protocol.scales[scale].tune.validation
    if share * images < 1:
        raise ConfigError(
            f"{protocol.file}: {protocol.under}tune.validation: {share:g} of the {images} images of a client "
            f"({split}, {scale} scale) is less than one; expected at least {1 / images:.2g}"
        )


def search(catalog: Catalog, scale: str, protocol: str, split: str, row: str) -> Search | None:
    """Return the search whose choice the run of these ids uses, or None.

    Labelled variants use the search of their plain protocol and row, and all splits that of ``tune.split``, if set.

    :raises ConfigError: the clients have too few images for a validation part.
    """
    plain = catalog.protocols[without_label(protocol)]
    tune = plain.scales[scale].tune
    owner = next((name for name in (row, without_label(row)) if tune and name in tune.grids), None)
    if owner is None:
        return None
    tuned_split = tune.split or split
    _check_share(plain, tuned_split, scale, catalog)
    most = PREVIEW_VALUES if scale == "preview" else None
    grid = {key: tried[:most] for key, tried in tune.grids[owner].items()}
    ids = {"scale": scale, "protocol": plain.id, "split": tuned_split, "row": owner}
    return Search(**ids, seed=tune.seed, validation=tune.validation, grid=grid)


def keys(settings: Settings) -> set[str]:
    """Return the keys of all grids in a protocol's ``settings``."""
    return {key for grid in settings.tune.grids.values() for key in grid} if settings.tune else set()


def open_search(catalog: Catalog, scale: str, protocol: str, split: str, row: str) -> tuple[Search | None, list[str]]:
    """Return the :func:`search` of these ids, and its keys that ``protocol`` and ``row`` do not set themselves."""
    source = search(catalog, scale, protocol, split, row)
    if source is None:
        return None, []
    overrides = {}
    if row != source.row:
        of_protocol = catalog.settings(source.scale, protocol).algorithms.get(row, {})
        overrides = {**(catalog.algorithms[row].set or {}), **of_protocol}
    settings_pair = (catalog.hyperparameters(source.scale, name, source.row) for name in (source.protocol, protocol))
    before, after = ({**training, **parameters} for training, parameters in settings_pair)
    return source, [key for key in source.grid if key not in overrides and before[key] == after[key]]


def search_at(catalog: Catalog, paths: Paths, scale: str, protocol: str, split: str, row: str) -> Search:
    """Return the search in ``results/<scale>/tuning/<protocol>/<split>/<row>``.

    :raises ConfigError: this folder has no search.
    """
    where = f"{paths.results}/{scale}/tuning"
    lookup.check("protocol", protocol, catalog.protocols, where)
    lookup.check("split", split, catalog.splits, where)
    lookup.check("algorithm", row, catalog.algorithms, where)
    actual = search(catalog, scale, protocol, split, row)
    if actual is None or (actual.protocol, actual.split, actual.row) != (protocol, split, row):
        elsewhere = "the protocol does not tune it" if actual is None else f"its search is {actual.folder(paths)}"
        raise ConfigError(f"{paths.search(scale, protocol, split, row)}: {elsewhere}")
    return actual


def run(catalog: Catalog, paths: Paths, source: Search, point: str) -> Run:
    """Return the run that tries ``point``; ConfigError if the grid has no such point."""
    points = source.combinations()
    lookup.check("point", point, points, source.folder(paths))
    ids = RunIds(source.scale, source.protocol, source.split, source.row, source.seed)
    plain = catalog.resolve(paths, ids, points[point])
    accuracy = catalog.settings(source.scale, source.protocol).accuracy
    client_sets = ["clients"] if accuracy == "client_test_accuracy" else []
    evaluation = {**plain.config.evaluation.as_json(), "sets": ["validation", *client_sets]}
    config = plain.config.changed("probe", evaluation=evaluation, validation=source.validation)
    folder = f"{source.folder(paths)}/{point}"
    return replace(plain, path=folder, analysis_folder=folder, config=config)


def runs(catalog: Catalog, paths: Paths, source: Search) -> list[Run]:
    """Return the runs of a search, in the order of its points."""
    return [run(catalog, paths, source, name) for name in source.combinations()]


def choice_spec(catalog: Catalog, paths: Paths, source: Search) -> TuningChoice:
    """Return the input of ``flatfed choose``: the search and its runs."""
    settings, tried = catalog.settings(source.scale, source.protocol), runs(catalog, paths, source)
    points = [
        Point(values=point, run=of_point.path, description_digest=digest_json(of_point.config.as_json()))
        for point, of_point in zip(source.combinations().values(), tried, strict=True)
    ]
    accuracy = settings.accuracy.replace("test", "validation")
    return TuningChoice(**vars(source), window=settings.evaluation.window, accuracy=accuracy, points=points)


def choice_path(paths: Paths, source: Search) -> str:
    """Return the path of a search's choice."""
    return f"{source.folder(paths)}/choice.json"


def chosen(catalog: Catalog, paths: Paths, ids: RunIds) -> dict[str, float]:
    """Return the tuned values of the run of ``ids``; ConfigError if a choice is missing or stale."""
    query, keys = open_search(catalog, ids.scale, ids.protocol, ids.split, ids.algorithm)
    return {key: _recorded(catalog, paths, query.scale, query.protocol, query.split, query.row)[key] for key in keys}


@functools.cache
def _recorded(catalog: Catalog, paths: Paths, *ids: str) -> dict[str, float]:
    query = search_at(catalog, paths, *ids)
    path = choice_path(paths, query)
    again = f"snakemake --cores all --config scale={query.scale} -- {path}"
    try:
        recorded = tuning_choice.read(path)
    except FileNotFoundError:
        raise ConfigError(
            f"tune: true needs the choice in {path}, which does not exist yet; make it: {again} (the rule `tuning` "
            "makes all choices)"
        ) from None
    except DataError as error:
        raise ConfigError(str(error)) from error
    expected, tried = choice_spec(catalog, paths, query), runs(catalog, paths, query)
    keys = ("grid", "seed", "validation", "window", "accuracy")
    if key := next((key for key in keys if getattr(recorded, key) != getattr(expected, key)), None):
        had, now = (json.dumps(getattr(choice, key)) for choice in (recorded, expected))
        problem = f"was chosen with {key} {had}, but the configuration has {now}"
    elif not all(map(_was_tried, recorded.points, tried)):
        problem = f"was chosen in another set-up than that of {query.protocol}"
    elif recorded.chosen not in query.combinations().values():
        problem = f"chosen is {json.dumps(recorded.chosen)}, which is no point of the grid"
    else:
        made_by = (versions.recorded(f"{point.run}/{RECORD}") for point in recorded.points)
        if texts := dict.fromkeys(filter(None, (versions.changes(tried[0].config, code) for code in made_by))):
            warning = f"{path}: of runs of other code than the present: {'; '.join(texts)}"
            print(f"flatfed: warning: {warning}; to choose again, remove its folder and call: {again}", file=sys.stderr)
        return recorded.chosen
    raise ConfigError(f"{path}: {problem}; rerun: {again}")


def _was_tried(point: Point, run: Run) -> bool:
    """Return whether the ``point`` of a choice was trained with the settings that decide the numbers of ``run``."""
    if point.description_digest == digest_json(run.config.as_json()):
        return True
    with contextlib.suppress(OSError, DataError):
        config = records.read(run.record).config
        return point.description_digest == digest_json(config.as_json()) and config.deciding == run.config.deciding
    return False
