"""Checks between documents: ids that must exist, sizes that must fit, and which algorithm trains on which split.

Each function raises a ConfigError, which may have a line per mistake.
"""

from __future__ import annotations

import fnmatch
import functools
import itertools
import math
import re
from collections.abc import Collection, Mapping

from flatfed import algorithms as registry
from flatfed import models
from flatfed.config.datasets import DatasetDocument
from flatfed.config.protocol import ABSENT, IN_PLACE_OF, SCHEDULE, Open, Settings
from flatfed.config.split import Split
from flatfed.config.table import MetricEntry
from flatfed.config.values import ID, ID_WORDS
from flatfed.errors import ConfigError
from flatfed.plan import lookup, protocols
from flatfed.plan.catalog import Catalog, topology
from flatfed.plan.lookup import Mistakes
from flatfed.plan.metrics import ACCURACIES, METRICS, SETS, unit_of
from flatfed.plan.protocols import ResolvedProtocol
from flatfed.plan.units import UNITS, units_of
from flatfed.runs import graphs
from flatfed.runs.paths import without_label

#: Least expected number of clients per round with Bernoulli sampling, which redraws empty rounds.
FEWEST = 0.1


def check_id(name: str, where: str) -> None:
    """Refuse an id that is not safe in a path or in a shell command."""
    if re.fullmatch(ID, name) is None:
        raise ConfigError(f"{where}: id {name[:128]!r} is not allowed; {ID_WORDS}")


def check_split(split: Split, splits: Mapping[str, Split], where: str) -> None:
    """Refuse a split that refers to an unknown split, or has an impossible graph."""
    # The number of images of a domain split depends on the downloaded data.
    others = ("central", "domain")
    federated = [id_ for id_, entry in splits.items() if entry.scheme not in others]
    for key, related in split.related.items():
        if related in splits and splits[related].scheme in others:
            scheme = splits[related].scheme
            raise ConfigError(f"{where}.{key}: {related!r} is of scheme {scheme}; expected a split of another scheme")
        lookup.check("split", related, federated, f"{where}.{key}")
    if split.topology and split.scheme != "domain":  # whose clients depend on the dataset
        graphs.check(split.clients, f"{where}.topology", **topology(split).as_json())


def check_different(splits: Mapping[str, Split], places: Mapping[str, str], mistakes: Mistakes) -> None:
    """Note splits with the same content, whose runs would be trained twice."""
    seen: dict[str, str] = {}
    for name, split in splits.items():
        same = seen.setdefault(split.model_dump_json(exclude={"label"}), name)
        if same != name:
            duplicate = f"split {same!r} under another id ({places[same]})"
            mistakes.add(f"{places[name]}: is {duplicate}; use one id, so that FlatFed trains its runs once")


def check_protocol(protocol: ResolvedProtocol, catalog: Catalog) -> None:
    """Refuse a protocol with unknown ids, invalid values, or a model that cannot process its images."""
    for scale, settings in protocol.scales.items():
        mistakes, where = Mistakes(), f"{protocol.file}: {protocol.key(scale)}"
        for check in (_check_dataset, _check_algorithms, _check_patterns, _check_evaluation, _check_schedule):
            mistakes.note(check, settings, catalog, where)
        mistakes.stop()  # a preview inherits the mistakes of the paper scale


def _check_schedule(settings: Settings, _: Catalog, where: str) -> None:
    schedule = settings.learning_rate_schedule
    protocols.check_milestones(schedule, settings.rounds, f"{where}learning_rate_schedule")


def _check_evaluation(settings: Settings, _: Catalog, where: str) -> None:
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
    if (needed := ACCURACIES[settings.accuracy]) not in evaluation.sets:
        expected = f"{needed!r} among evaluation.sets, which are {', '.join(evaluation.sets)}"
        raise ConfigError(f"{where}accuracy: {settings.accuracy} needs {expected}")


def _check_dataset(settings: Settings, catalog: Catalog, where: str) -> None:
    """Refuse an unknown dataset, a model that cannot process its images, and test images that it does not have."""
    dataset = lookup.entry("dataset", settings.dataset, catalog.datasets, f"{where}dataset")
    model, shape = settings.model, tuple(dataset.shape)
    options = models.check_options(model.name, model.options or {}, f"{where}model")
    models.check_shape(model.name, shape, options, f"{where}model")
    models.check_runs(model.name, shape, dataset.classes, options, f"{where}model")
    _check_client_test(settings, dataset, where)


def _check_algorithms(settings: Settings, catalog: Catalog, where: str) -> None:
    mistakes = Mistakes()
    for name, overrides in settings.algorithms.items():
        with mistakes.noted():
            lookup.check_algorithm(name, catalog.algorithms, f"{where}algorithms")
            protocols.check_overrides(without_label(name), overrides, f"{where}algorithms.{name}")
            if schedule := overrides.get("learning_rate_schedule"):
                at = f"{where}algorithms.{name}.learning_rate_schedule"
                protocols.check_milestones(SCHEDULE.check(schedule, at), settings.rounds, at)
        for shared, other in IN_PLACE_OF.items():
            of_protocol = getattr(settings, shared)
            replaced = of_protocol and getattr(of_protocol, "kind", "") != "exponential"
            if replaced and other in overrides and shared not in overrides:
                at = f"{where}algorithms.{name}.{other}: {overrides[other]} is not allowed"
                remedy = f"remove one of them, or give {name} a {shared} of its own"
                mistakes.add(f"{at} next to the protocol's {shared}, whose place it would take; {remedy}")
    mistakes.stop()


def _check_patterns(settings: Settings, catalog: Catalog, where: str) -> None:
    patterns = [("split", pattern, "targets") for pattern in settings.targets]
    for name, entry in settings.unstated.items():
        for kind, key in (("algorithm", "rows"), ("split", "splits")) if isinstance(entry, Open) else ():
            patterns += [(kind, pattern, f"unstated.{name}.{key}") for pattern in getattr(entry, key) or ()]
    for kind, pattern, key in patterns:
        ids = catalog.algorithms if kind == "algorithm" else catalog.splits
        if not fnmatch.filter(ids, pattern):
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


def check_metric(entry: MetricEntry, protocol: ResolvedProtocol, splits: Collection[str], where: str) -> None:
    """Refuse a metric of a table that is unknown, or that does not fit its unit, targets, base row or evaluations."""
    mistakes, name, metric = Mistakes(), entry.metric, METRICS.get(entry.metric)
    if metric is None:
        mistakes.note(lookup.check, "metric", name, METRICS, f"{where}: metric")
        if not entry.unit:
            mistakes.add(f"{where}: key 'unit' is missing; known: {', '.join(UNITS)}")
        mistakes.stop()
    relative = entry.relative or metric.relative
    if metric.source != "declared" and not splits:
        mistakes.add(f"{where}: key 'splits' is missing; metric {name!r} needs runs on splits")
    if metric.needs_target != bool(entry.targets):
        problem = "has no targets" if entry.targets else "needs `targets:`, names of the protocol's"
        mistakes.add(f"{where}: metric {name!r} {problem}")
    for (scale, settings), split, target in itertools.product(protocol.scales.items(), splits, entry.targets or ()):
        at = f"{where}: targets ({scale} scale, {protocol.file})"
        mistakes.note(protocols.target, settings, split, target, at)
    mistakes.note(_check_unit, entry, unit_of(name, relative), relative, where)
    if relative and not entry.base:
        mistakes.add(f"{where}: key 'base' is missing; {name} as a {relative} is computed against a base row")
    if entry.decentralised:  # the metric of rows without a server, with the same printed name
        printed = metric.printed_as
        peers = {peer for peer in METRICS if (METRICS[peer].printed_as, METRICS[peer].source) == (printed, "runs")}
        at = f"{where}: metrics.decentralised ({printed})"
        mistakes.note(lookup.check, "metric", entry.decentralised, peers - {name}, at)
    mistakes.stop()
    names = filter(None, (name, entry.decentralised)) if splits else ()
    for (scale, settings), name in itertools.product(protocol.scales.items(), names):
        _check_evaluated(name, settings, f"{protocol.id} ({scale} scale, {protocol.file})", where)


def _check_unit(entry: MetricEntry, stored: str, relative: str | None, where: str) -> None:
    allowed = ", ".join(units_of(stored))
    if not entry.unit:
        raise ConfigError(f"{where}: key 'unit' is missing; {entry.metric} has: {allowed}")
    lookup.check("unit", entry.unit, UNITS, f"{where}: unit")
    if UNITS[entry.unit].stored != stored:
        quantity = f"{entry.metric} taken as a {relative}" if relative else entry.metric
        raise ConfigError(f"{where}: unit: {entry.unit!r} is not one of {quantity}; allowed: {allowed}")


def _check_evaluated(name: str, settings: Settings, location: str, where: str) -> None:
    evaluated = settings.evaluation.sets
    if name == "node_test_accuracy" and not settings.client_test_images:
        raise ConfigError(f"{where}: metric {name!r} needs client_test_images in {location}")
    for column in METRICS[name].columns:
        of_test = "test" in column and "validation" in evaluated
        if (needed := "test" if of_test else SETS.get(column, evaluated[0])) not in evaluated:
            expected = f"{needed!r} among evaluation.sets of {location}, which evaluates {', '.join(evaluated)}"
            raise ConfigError(f"{where}: metric {name!r} needs {expected}")


@functools.lru_cache(4096)
def check_fit(catalog: Catalog, protocol: str, split: str) -> None:
    """Refuse a split that does not fit the datasets of ``protocol``."""
    declared, location = catalog.splits[split], catalog.split_places[split]
    for key, related_split in declared.related.items():
        lookup.check("split", related_split, catalog.splits, f"{location}.{key}")
        check_fit(catalog, protocol, related_split)
    domains = catalog.dataset("paper", protocol).domains or []
    if declared.scheme == "domain":
        data = catalog.settings("paper", protocol).dataset
        at = f"{location}.domain (dataset {data!r}, {protocol})"
        lookup.check("domain", declared.domain, domains, at)
    for scale in catalog.protocols[protocol].scales:
        dataset, resolved_split = catalog.dataset(scale, protocol), catalog.split_settings(scale, protocol, split)
        data = catalog.settings(scale, protocol).dataset
        scope = f"of dataset {data!r} ({protocol}, {scale} scale)"
        if declared.scheme == "domain" and (has := len(dataset.domains or [])) != len(domains):
            raise ConfigError(f"{location}: {len(domains)} domains are required {scope}, which has {has}")
        partition, sampling = resolved_split.partition, resolved_split.sampling
        clients, shards = partition.clients, partition.shards_per_client or 1
        distinct = partition.assignment == "different_classes"
        size = "clients_per_domain" if declared.scheme == "domain" else "clients"
        made = f"{clients * shards} {'shards' if partition.shards_per_client else 'clients'}"
        drawn = clients * sampling.fraction if sampling.scheme == "bernoulli" else 1
        joining = f"{drawn:g} clients join a round; expected at least {FEWEST} {scope}"
        classes = f"at most {dataset.classes}, the classes {scope}"
        for key, wrong, allowed in (
            ("participation", drawn < FEWEST, joining),
            ("classes_per_client", (partition.classes_per_client or 0) > dataset.classes, classes),
            ("shards_per_client", distinct and shards > dataset.classes, f"{classes}, or assignment: permutation"),
            (size, clients * shards > dataset.train, f"they make {made}; at most {dataset.train} images {scope}"),
        ):
            if wrong:
                raise ConfigError(f"{location}.{key}: {getattr(declared, key)} is not allowed; {allowed}")
        if resolved_split.topology is not None:
            graphs.check(clients, f"{location}.topology", **resolved_split.topology.as_json())


@functools.lru_cache(4096)
def check_pair(catalog: Catalog, protocol: str, split: str, algorithm: str) -> None:
    """Refuse an algorithm that cannot train on a split: wrong or no topology, central data, or gossip steps."""
    scheme = catalog.splits[split].scheme
    for scale in catalog.protocols[protocol].scales:
        kind = catalog.build(scale, protocol, algorithm)
        training, parameters = catalog.hyperparameters(scale, protocol, algorithm)
        for key in training.keys() & parameters.keys() & set(ABSENT):
            at = f"{protocol} ({scale} scale): {key}: {training[key]} is not allowed"
            raise ConfigError(f"{at}; algorithm {algorithm!r} has a parameter {key} of its own")
        resolved_split = catalog.split_settings(scale, protocol, split)
        graph = resolved_split.topology
        if scale == "paper":  # in the fewer rounds of a preview, a variant's later milestones have no effect
            schedule = training.get("learning_rate_schedule")
            protocols.check_milestones(schedule, training["rounds"], f"{protocol}: {algorithm}: learning_rate_schedule")
        at = f"{protocol} ({scale} scale): algorithm {algorithm!r} cannot train on split {split!r}"
        if kind.decentralised and graph is None:
            remedy = "name a split with one in the key `decentralised` of the columns or figure"
            raise ConfigError(f"{at}: it is decentralised and the split has no topology; {remedy}")
        if not kind.decentralised and graph is not None:
            peers = ", ".join(name for name in registry.names() if registry.load(name).decentralised)
            has = f"it has a server and the split a topology, {graph.graph}"
            raise ConfigError(f"{at}: {has}; topologies are for {peers}")
        if kind.central and scheme != "central":
            needs = f"it needs all data in one client, as in splits of scheme central, not {scheme}"
            raise ConfigError(f"{at}: {needs}")
        if graph is not None:
            clients = resolved_split.partition.clients
            graphs.check_steps(clients, kind.gossip_steps, f"{at}: gossip_steps", **graph.as_json())


def training_split(catalog: Catalog, protocol: str, algorithm: str, split: str, pattern: str, where: str) -> str:
    """Return the split that ``algorithm`` trains on: ``split`` or, decentralised, ``pattern`` with it for *.

    :raises ConfigError: the split does not exist, or the algorithm cannot train on it.
    """
    if registry.load(without_label(algorithm)).decentralised:
        split = pattern.replace("*", split)
        lookup.check("split", split, catalog.splits, f"{where}: decentralised")
    try:
        check_pair(catalog, protocol, split, algorithm)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    return split
