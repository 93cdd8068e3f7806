"""Compatibility of splits with the datasets of protocols, and of algorithms with splits."""

from __future__ import annotations

import functools

from flatfed import algorithms as registry
from flatfed.config.protocol import ABSENT
from flatfed.errors import ConfigError
from flatfed.plan import lookup
from flatfed.plan.catalog import Catalog
from flatfed.plan.protocols import ResolvedProtocol
from flatfed.runs import graphs
from flatfed.runs.paths import without_label

#: Least expected number of clients per round with Bernoulli sampling, which redraws empty rounds.
FEWEST = 0.1


def protocol_of(name: str, catalog: Catalog, where: str) -> ResolvedProtocol:
    """Return the protocol or labelled variant ``name``; ConfigError if it does not exist."""
    return lookup.entry("protocol", name, catalog.protocols, f"{where}: protocol")


@functools.lru_cache(4096)
def check(name: str, split: str, catalog: Catalog, where: str) -> None:
    """Refuse a split that does not fit the datasets of protocol ``name``; ``where`` requests it."""
    protocol, declared = catalog.protocols[name], catalog.splits[split]
    for related_split in filter(None, (declared.images_of, declared.steps_of)):
        check(name, related_split, catalog, where)
    location = catalog.split_places[split]
    domains = catalog.dataset("paper", name).domains or []
    if declared.scheme == "domain":
        data = catalog.settings("paper", name).dataset
        at = f"{location}.domain (dataset {data!r}, {name}; requested in {where})"
        lookup.check("domain", declared.domain, domains, at)
    for scale in protocol.scales:
        dataset, resolved_split = catalog.dataset(scale, name), catalog.split_settings(scale, name, split)
        data = catalog.settings(scale, name).dataset
        scope = f"of dataset {data!r} ({name}, {scale} scale; requested in {where})"
        if declared.scheme == "domain" and (has := len(dataset.domains or [])) != len(domains):
            raise ConfigError(f"{location}: {len(domains)} domains are required {scope}, which has {has}")
        partition, sampling = resolved_split.partition, resolved_split.sampling
        clients, shards = partition.clients, partition.shards_per_client or 1
        distinct = partition.assignment == "different_classes"
        size = "clients" if declared.clients else "clients_per_domain"
        made = f"{clients * shards} {'shards' if partition.shards_per_client else 'clients'}"
        drawn = clients * sampling.fraction if sampling.scheme == "bernoulli" else 1
        classes = f"at most {dataset.classes}, the classes {scope}"
        for key, wrong, allowed in (
            ("participation", drawn < FEWEST, f"{drawn:g} clients join a round; expected at least {FEWEST} {scope}"),
            ("classes_per_client", (partition.classes_per_client or 0) > dataset.classes, classes),
            ("shards_per_client", distinct and shards > dataset.classes, f"{classes}, or assignment: permutation"),
            (size, clients * shards > dataset.train, f"they make {made}; at most {dataset.train} images {scope}"),
        ):
            if wrong:
                raise ConfigError(f"{location}.{key}: {getattr(declared, key)} is not allowed; {allowed}")
        if resolved_split.topology is not None:
            graphs.check(clients, f"{location}.topology", **resolved_split.topology.as_json())


@functools.lru_cache(4096)
def _built(catalog: Catalog, scale: str, protocol: str, algorithm: str) -> registry.Algorithm:
    _, parameters = catalog.hyperparameters(scale, protocol, algorithm)
    return registry.build(without_label(algorithm), parameters)


@functools.lru_cache(4096)
def check_pair(protocol: str, split: str, algorithm: str, catalog: Catalog, where: str) -> None:
    """Refuse an algorithm that cannot train on a split: wrong or missing topology, central data, or gossip steps."""
    content = catalog.splits[split]
    for scale in catalog.protocols[protocol].scales:
        kind = _built(catalog, scale, protocol, algorithm)
        training, parameters = catalog.hyperparameters(scale, protocol, algorithm)
        for key in training.keys() & parameters.keys() & set(ABSENT):
            at = f"{where}: {protocol} ({scale} scale): {key}: {training[key]} is not allowed"
            raise ConfigError(f"{at}; algorithm {algorithm!r} has a parameter {key} of its own")
        resolved_split = catalog.split_settings(scale, protocol, split)
        topology = resolved_split.topology
        at = f"{where}: {protocol} ({scale} scale): algorithm {algorithm!r} cannot train on split {split!r}"
        if kind.decentralised and topology is None:
            allowed = ", ".join(graphs.GRAPHS)
            raise ConfigError(f"{at}: it is decentralised and the split has no topology; allowed: {allowed}")
        if not kind.decentralised and topology is not None:
            peers = ", ".join(name for name in registry.names() if registry.load(name).decentralised)
            graph = topology.graph
            raise ConfigError(f"{at}: it has a server and the split a topology, {graph}; topologies are for {peers}")
        if kind.central and content.scheme != "central":
            scheme = content.scheme
            raise ConfigError(f"{at}: it needs all data in one client, as in splits of scheme central, not {scheme}")
        if topology is not None:
            clients = resolved_split.partition.clients
            graphs.check_steps(clients, kind.gossip_steps, f"{at}: gossip_steps", **topology.as_json())


def training_split(protocol: str, algorithm: str, split: str, pattern: str, catalog: Catalog, where: str) -> str:
    """Return the split that ``algorithm`` trains on: ``split``, or ``pattern`` with ``split`` for * if decentralised.

    :raises ConfigError: the split does not exist, or the algorithm cannot train on it.
    """
    if registry.load(without_label(algorithm)).decentralised:
        split = pattern.replace("*", split)
        lookup.check("split", split, catalog.splits, f"{where}: decentralised")
    check_pair(protocol, split, algorithm, catalog, where)
    return split
