"""Which algorithm trains on which split: topologies and centralised training."""

from __future__ import annotations

import pytest

import made
from flatfed import plan
from flatfed.errors import ConfigError

PROTOCOL = "fedsmoo-cifar10"
GRAPH = {"label": ["x"], "scheme": "dirichlet", "alpha": 0.7, "clients": 100, "participation": 1, "sampling": "all"}
ONE = {"label": ["x"], "scheme": "central", "clients": 1, "participation": 1, "steps_of": "dir0.1-100"}
DOMAIN = {"label": ["x"], "scheme": "domain", "domain": "art", "clients_per_domain": 10, "participation": 1}

SPLITS = {
    "clique10": {**GRAPH, "topology": "clique", "neighbours": 10},
    "clique30": {**GRAPH, "topology": "clique", "neighbours": 30},
    "ring_of_domains": {**DOMAIN, "sampling": "all", "topology": "ring"},
    "one_of_100": ONE,
    "one_with_images": {**ONE, "images_of": "dir0.1-100"},
}


@pytest.fixture(scope="module")
def exp(tmp_path_factory):
    """The configuration with more splits."""
    root = made.small(tmp_path_factory.mktemp("splits"))
    return plan.load(made.edited(root, "splits.yaml", lambda content: content.update(SPLITS)))


def settings(exp, split, algorithm, scale="paper", protocol=PROTOCOL):
    return exp.run(scale, protocol, split, algorithm, 1).config


def test_a_topology_reaches_the_run_and_shrinks_with_the_clients(exp):
    for scale, neighbours, clients in (("paper", 10, 100), ("preview", 3, 30)):
        config = settings(exp, "clique10", "dfedsam", scale).as_json()
        assert config["topology"] == {"graph": "clique", "neighbours": neighbours}
        assert config["partition"]["clients"] == clients
    domains = settings(exp, "ring_of_domains", "dfedavg", protocol="fedlesam-officehome").as_json()
    assert (domains["topology"], domains["partition"]["clients"]) == ({"graph": "ring"}, 30)


@pytest.mark.parametrize(
    ("split", "name", "words"),
    [
        ("dir0.6-100", "dfedavg", ["'dir0.6-100'", "has no topology", "`decentralised`"]),
        ("clique30", "fedavg", ["'clique30'", "has a server", "clique", "dfedsam"]),
        ("dir0.6-100", "centralised_sgd", ["all data in one client", "dirichlet"]),
        ("clique30", "dfedsam_mgs", ["4 gossip steps", "cliques of 30", "allow at most 3"]),
    ],
)
def test_algorithm_and_split_must_fit(exp, split, name, words):
    with pytest.raises(ConfigError) as caught:
        settings(exp, split, name)
    assert [word for word in (PROTOCOL, repr(name), *words) if word not in str(caught.value)] == []


def test_a_central_split_can_have_the_images_of_a_federated_one(exp):
    """The federated partition is in the central one, and decides the run."""
    names = ("one_with_images", "one_of_100", "dir0.1-100")
    pooled, plain, federated = (exp.partition_spec("preview", PROTOCOL, split, 1) for split in names)
    assert plain == pooled.model_copy(update={"images_of": None})
    shared = pooled.model_dump(include={"dataset", "classes", "seed"})
    assert {**shared, **pooled.images_of} == federated.as_written()
    assert (pooled.scheme, pooled.clients) == ("central", 1)
    one, other = (settings(exp, split, "centralised_sgd", "preview") for split in names[:2])
    (difference,) = other.changed(split=names[0]).deciding_differences(one)
    assert difference.startswith("partition.images_of is null, here ")
