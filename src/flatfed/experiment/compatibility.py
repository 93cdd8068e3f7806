"""What fits what: a split and the dataset of a protocol, an algorithm and a split."""

from __future__ import annotations

from flatfed import algorithms as registry
from flatfed.errors import ConfigError
from flatfed.experiment import deals, known, settings
from flatfed.experiment.catalog import Catalog
from flatfed.runs import graphs

#: Clients that join a round by independent draws, on average, at least: a round that nobody joins is drawn again.
FEWEST = 0.1


def protocol_of(name: str, catalog: Catalog, where: str) -> settings.Protocol:
    """Return the protocol or labelled variant ``name``; ConfigError naming ``where`` if there is none."""
    return known.look_up("protocol", name, catalog.protocols, f"{where}: protocol")


def check(protocol: settings.Protocol, split: str, catalog: Catalog, where: str) -> None:
    """Refuse a split that the protocol's dataset cannot be dealt by, at any scale it has; ``where`` asked for it."""
    declared = catalog.splits[split]
    if "images_of" in declared:
        check(protocol, declared["images_of"], catalog, where)
    place = catalog.places["splits"][split]
    if declared["scheme"] == "domain":
        name = protocol.scales["paper"]["dataset"]
        domains = catalog.datasets[name].get("domains", [])
        there = f"{place}.domain (dataset {name!r}, {protocol.id}; asked for in {where})"
        known.check("domain", declared["domain"], domains, there)
    for scale in protocol.scales:
        dataset = catalog.datasets[protocol.scales[scale]["dataset"]]
        there = f"of dataset {protocol.scales[scale]['dataset']!r} ({protocol.id}, {scale} scale; asked for in {where})"
        if declared["scheme"] == "domain":
            wanted = len(catalog.datasets[protocol.scales["paper"]["dataset"]]["domains"])
            if len(dataset.get("domains", [])) != wanted:
                found = len(dataset.get("domains", []))
                raise ConfigError(f"{place}: {wanted} domains are wanted {there}, which has {found}")
        dealt = deals.of_split(split, protocol, scale, catalog)
        deal, clients = dealt.partition, dealt.partition["clients"]
        if dealt.sampling["scheme"] == "bernoulli" and clients * dealt.sampling["fraction"] < FEWEST:
            wrong = f"{place}.participation: {declared['participation']} of {clients} clients"
            raise ConfigError(f"{wrong} is not allowed; at least {FEWEST} clients a round are wanted {there}")
        if deal.get("classes_per_client", 0) > dataset["classes"]:
            wrong = f"{place}.classes_per_client: {declared['classes_per_client']}"
            raise ConfigError(f"{wrong} is not allowed; at most {dataset['classes']}, the classes {there}")
        if deal.get("assignment") == "different_classes" and deal["shards_per_client"] > dataset["classes"]:
            wrong = f"{place}.shards_per_client: {declared['shards_per_client']}"
            most = f"at most {dataset['classes']}, the classes {there}"
            raise ConfigError(f"{wrong} is not allowed; {most}, or any number with assignment: permutation")
        if dealt.topology is not None:
            graphs.check(dealt.topology, clients, f"{place}.topology")
        parts = clients * deal.get("shards_per_client", 1)
        if parts > dataset["train"]:
            kind = "shards" if "shards_per_client" in deal else "clients"
            wrong = f"{place}.clients: {declared.get('clients', declared.get('clients_per_domain'))}"
            most = f"at most {dataset['train']}, the training images {there}"
            raise ConfigError(f"{wrong} is not allowed, they make {parts} {kind}; {most}")


def check_pair(protocol: str, split: str, algorithm: str, catalog: Catalog, where: str) -> None:
    """Refuse an algorithm that cannot be trained on a split in a protocol, at any scale it has.

    :raises ConfigError: a decentralised algorithm without a topology, one with a server on a topology, a centralised
        one on several clients, or more gossip steps than the topology has.
    """
    content = catalog.splits[split]
    for scale, values in catalog.protocols[protocol].scales.items():
        _, parameters = settings.of_algorithm(values, algorithm, catalog.algorithms[algorithm])
        kind = registry.load(algorithm.partition("~")[0])(**parameters)
        deal = deals.of_split(split, catalog.protocols[protocol], scale, catalog)
        topology = deal.topology
        at = f"{where}: {protocol} ({scale} scale): algorithm {algorithm!r} cannot train on split {split!r}"
        if kind.decentralised and topology is None:
            allowed = ", ".join(graphs.GRAPHS)
            raise ConfigError(f"{at}: it is decentralised and the split has no topology; allowed: {allowed}")
        if not kind.decentralised and topology is not None:
            others = ", ".join(name for name in registry.names() if registry.load(name).decentralised)
            graph = topology["graph"]
            raise ConfigError(f"{at}: it has a server and the split a topology, {graph}; topologies are for {others}")
        if kind.central and content["scheme"] != "central":
            scheme = content["scheme"]
            raise ConfigError(f"{at}: it has all data at one place, as splits of scheme central do, not {scheme}")
        if topology is not None:
            graphs.check_steps(topology, deal.partition["clients"], kind.gossip_steps, f"{at}: gossip_steps")


def own_split(split: str, algorithm: str, pattern: str, catalog: Catalog, where: str) -> str:
    """Return the split that ``algorithm`` is trained on where others are on ``split``.

    Decentralised ones have a topology, and so a split of their own: ``pattern``, in which * stands for the others'.
    """
    if not registry.load(algorithm.partition("~")[0]).decentralised:
        return split
    own = pattern.replace("*", split)
    known.check("split", own, catalog.splits, f"{where}: decentralised")
    return own
