"""Checks of configuration entries that the schemas cannot make."""

from __future__ import annotations

import fnmatch
import itertools
import math
import re
from collections.abc import Iterable

from flatfed import models
from flatfed.config.algorithm import AlgorithmDocument
from flatfed.config.datasets import DatasetDocument
from flatfed.config.protocol import IN_PLACE_OF, Model, Open, Settings, Steps
from flatfed.config.split import Split
from flatfed.config.table import MetricEntry
from flatfed.config.values import ID, ID_WORDS
from flatfed.errors import ConfigError
from flatfed.models import pretrained
from flatfed.plan import lookup, protocols
from flatfed.plan.catalog import topology
from flatfed.plan.lookup import Declared, Entries
from flatfed.plan.metrics import ACCURACIES, METRICS, SETS, unit_of
from flatfed.plan.protocols import ResolvedProtocol
from flatfed.plan.units import UNITS, units_of
from flatfed.runs import graphs
from flatfed.runs.paths import without_label


def check_id(name: str, where: str) -> None:
    """Refuse an id that is not safe in a path or in a shell command."""
    if re.fullmatch(ID, name) is None:
        raise ConfigError(f"{where}: id {name[:128]!r} is not allowed; {ID_WORDS}")


def check_dataset(dataset: DatasetDocument, where: str) -> None:
    """Refuse a dataset whose mean or std does not have one number per channel."""
    channels = dataset.shape[0]
    for key in ("mean", "std"):
        if (count := len(getattr(dataset, key))) != channels:
            raise ConfigError(f"{where}.{key}: {count} numbers for {channels} channels; give one for each")


def check_split(name: str, splits: Entries[Declared], seen: dict[str, str]) -> None:
    """Refuse a split that refers to an unknown split, has an impossible graph, or repeats another id.

    ``seen``: content -> id of the splits so far.
    """
    split, where = splits[name].content, splits[name].where
    # The number of images of a domain split depends on the downloaded data.
    federated = {id_: entry for id_, entry in splits.items() if entry.content.scheme not in ("central", "domain")}
    for key, related in split.related.items():
        lookup.check("split", related, Entries(federated, splits.refused), f"{where}.{key}")
    if split.topology and split.scheme != "domain":  # whose clients depend on the dataset
        graphs.check(split.clients, f"{where}.topology", **topology(split).as_json())
    same = seen.setdefault(split.model_dump_json(exclude={"label"}), name)
    if same != name:
        duplicate = f"split {same!r} under another id ({splits[same].where})"
        raise ConfigError(f"{where}: is {duplicate}; use one id, so that FlatFed trains its runs once")


def check_protocol(
    protocol: ResolvedProtocol,
    datasets: Entries[DatasetDocument],
    algorithms: Entries[AlgorithmDocument],
    splits: Entries[Split],
) -> None:
    """Refuse a protocol with unknown ids, invalid values, or a model that cannot process its images."""
    for scale, settings in protocol.scales.items():
        where = f"{protocol.file}: {protocol.key(scale)}"
        lookup.check("dataset", settings.dataset, datasets, f"{where}dataset")
        _check_model(settings.model, datasets[settings.dataset], where)
        _check_algorithms(settings, algorithms, where)
        _check_patterns(settings, algorithms, splits, where)
        _check_client_test(settings, datasets[settings.dataset], where)
        _check_evaluation(settings, where)
        schedule = settings.learning_rate_schedule
        if isinstance(schedule, Steps) and (last := max(schedule.milestones)) >= settings.rounds:
            at, scope = f"{where}learning_rate_schedule.milestones", f"of the {settings.rounds} rounds at {scale} scale"
            raise ConfigError(f"{at}: {last} is not allowed; at most {settings.rounds - 1} {scope}")
        if (needed := ACCURACIES[settings.accuracy]) not in (evaluated := settings.evaluation.sets):
            expected = f"{needed!r} among evaluation.sets, which are {', '.join(evaluated)}"
            raise ConfigError(f"{where}accuracy: {settings.accuracy} needs {expected}")


def _check_evaluation(settings: Settings, where: str) -> None:
    evaluation = settings.evaluation
    if ("validation" in evaluation.sets) != (settings.validation is not None):
        raise ConfigError(f"{where}evaluation.sets: it has 'validation' if, and only if, the protocol has `validation`")
    if {"test", "validation"} <= {*evaluation.sets}:
        raise ConfigError(f"{where}evaluation.sets: has test and validation; a search never uses test images, keep one")
    most = math.ceil(settings.rounds / evaluation.every)
    for key in ("window", "smoothing"):
        if (count := getattr(evaluation, key)) > most:
            evaluations = f"the evaluations of {settings.rounds} rounds, every {evaluation.every}"
            raise ConfigError(f"{where}evaluation.{key}: {count} is not allowed; at most {most}, {evaluations}")


def _check_model(model: Model, dataset: DatasetDocument, where: str) -> None:
    shape, options = tuple(dataset.shape), models.check_options(model.name, model.options or {}, f"{where}model")
    if model.weights:
        pretrained.check(model.weights, model.name, f"{where}model.weights")
    models.check_shape(model.name, shape, options, f"{where}model")
    models.check_runs(model.name, shape, dataset.classes, options, f"{where}model")


def _check_algorithms(settings: Settings, algorithms: Entries[AlgorithmDocument], where: str) -> None:
    for name, overrides in settings.algorithms.items():
        if name not in algorithms.declared:
            lookup.check_algorithm(name, algorithms, f"{where}algorithms")
        protocols.check_overrides(without_label(name), overrides, f"{where}algorithms.{name}")
        for shared, other in IN_PLACE_OF.items():
            of_protocol = getattr(settings, shared)
            replaced = of_protocol and getattr(of_protocol, "kind", "") != "exponential"
            if replaced and other in overrides and shared not in overrides:
                at = f"{where}algorithms.{name}.{other}: {overrides[other]} is not allowed"
                remedy = f"remove one of them, or give {name} a {shared} of its own"
                raise ConfigError(f"{at} next to the protocol's {shared}, whose place it would take; {remedy}")


def _check_patterns(
    settings: Settings, algorithms: Entries[AlgorithmDocument], splits: Entries[Split], where: str
) -> None:
    patterns = [("split", pattern, "targets") for pattern in settings.targets]
    for name, entry in settings.unstated.items():
        for kind, key in (("algorithm", "rows"), ("split", "splits")) if isinstance(entry, Open) else ():
            patterns += [(kind, pattern, f"unstated.{name}.{key}") for pattern in getattr(entry, key) or ()]
    for kind, pattern, key in patterns:
        ids = algorithms if kind == "algorithm" else splits
        if not fnmatch.filter(ids.declared, pattern):
            lookup.check(kind, pattern, ids, f"{where}{key}")


def _check_client_test(settings: Settings, dataset: DatasetDocument, where: str) -> None:
    key, sets, images = "client_test_images", settings.evaluation.sets, settings.client_test_images
    required = "clients" in sets or ("nodes" in sets and images)
    if required and not images:
        raise ConfigError(f"{where}{key}: is missing; evaluation.sets has clients, and each needs its own test images")
    if images and not required:
        raise ConfigError(f"{where}{key}: has no effect without clients or nodes in evaluation.sets")
    # Splits that leave a domain out test on images of both parts.
    most = dataset.test + (dataset.train if dataset.domains else 0)
    if required and images > most:
        raise ConfigError(
            f"{where}{key}: {images} is not allowed; at most {most}, the test images of dataset {settings.dataset!r}"
        )


def check_metric(entry: MetricEntry, protocol: ResolvedProtocol, splits: Iterable[str], where: str) -> None:
    """Refuse a metric of a table that is unknown, or that does not fit its unit, targets, base row or evaluations."""
    lookup.check("metric", entry.metric, METRICS, f"{where}: metric")
    metric, relative = METRICS[entry.metric], entry.relative or METRICS[entry.metric].relative
    if metric.source != "declared" and not splits:
        raise ConfigError(f"{where}: key 'splits' is missing; metric {entry.metric!r} needs runs on splits")
    if metric.needs_target != bool(entry.targets):
        problem = "has no targets" if entry.targets else "needs `targets:`, names of the protocol's"
        raise ConfigError(f"{where}: metric {entry.metric!r} {problem}")
    for name, split in itertools.product(entry.targets or (), splits):
        for scale, settings in protocol.scales.items():
            protocols.target(settings, split, name, f"{where}: targets ({scale} scale, {protocol.file})")
    stored = unit_of(entry.metric, relative)
    allowed = ", ".join(units_of(stored))
    if not entry.unit:
        raise ConfigError(f"{where}: key 'unit' is missing; {entry.metric} has: {allowed}")
    lookup.check("unit", entry.unit, UNITS, f"{where}: unit")
    if UNITS[entry.unit].stored != stored:
        quantity = f"{entry.metric} taken as a {relative}" if relative else entry.metric
        raise ConfigError(f"{where}: unit: {entry.unit!r} is not one of {quantity}; allowed: {allowed}")
    if relative and not entry.base:
        needs = f"{entry.metric} as a {relative} is computed against a base row"
        raise ConfigError(f"{where}: key 'base' is missing; {needs}")
    if entry.decentralised:  # the metric of rows without a server, with the same printed name
        printed = metric.printed_as
        peers = {name for name, peer in METRICS.items() if (peer.printed_as, peer.source) == (printed, "runs")}
        allowed_peers = peers - {entry.metric}
        lookup.check("metric", entry.decentralised, allowed_peers, f"{where}: metrics.decentralised ({printed})")
    for (scale, settings), name in itertools.product(protocol.scales.items(), (entry.metric, entry.decentralised)):
        if name and splits:
            _check_evaluated(name, settings, f"{protocol.id} ({scale} scale, {protocol.file})", where)


def _check_evaluated(name: str, settings: Settings, location: str, where: str) -> None:
    evaluated = settings.evaluation.sets
    if name == "node_test_accuracy" and not settings.client_test_images:
        raise ConfigError(f"{where}: metric {name!r} needs client_test_images in {location}")
    for column in METRICS[name].columns:
        of_test = "test" in column and "validation" in evaluated
        if (needed := "test" if of_test else SETS.get(column, evaluated[0])) not in evaluated:
            expected = f"{needed!r} among evaluation.sets of {location}, which evaluates {', '.join(evaluated)}"
            raise ConfigError(f"{where}: metric {name!r} needs {expected}")
