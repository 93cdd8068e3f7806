"""Shards of label-sorted images: different classes on every client, at random, whenever there is a way at all."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from flatfed.data import keys
from flatfed.data import partition as partitions
from flatfed.errors import ConfigError, DataError
from flatfed.plan import compatibility, run_specs
from shipped import EXP

CIFAR10, CIFAR100 = np.repeat(np.arange(10), 5000), np.repeat(np.arange(100), 500)

#: Sixteen digits of what commit 9f431f1 dealt of these labels to 20 clients, seeds 1 to 3, by other schemes and, the
#: only way there was, by a permutation of the shards.
MIXED = np.repeat(np.arange(10), 120)[np.random.default_rng(7).permutation(1200)]
BEFORE = [
    ({"scheme": "iid"}, "2e896e0a3e21a586"),
    ({"scheme": "iid", "balanced": True}, "62c7a5e294b27c2a"),
    ({"scheme": "iid", "sampler": "official"}, "102190755915a65f"),
    ({"scheme": "dirichlet", "alpha": 0.1, "replacement": True}, "09f255f7e14b33bf"),
    ({"scheme": "dirichlet", "alpha": 0.1, "replacement": True, "sampler": "official"}, "afae2bda70903278"),
    ({"scheme": "dirichlet", "alpha": 0.1, "replacement": False}, "60955f2d44db874f"),
    ({"scheme": "pathological", "classes_per_client": 3}, "b4ded47683e8f9bf"),
    ({"scheme": "pathological", "classes_per_client": 3, "sampler": "official"}, "fd4150642f7bf68b"),
    ({"scheme": "shards", "shards_per_client": 2, "assignment": "permutation"}, "5c2ee5b3c619dbf3"),
]


def deal(labels, clients, each=2, seed=1, assignment="different_classes"):
    spec = {"dataset": "test", "seed": seed, "classes": int(labels.max()) + 1, "scheme": "shards", "clients": clients}
    whole = {**spec, "shards_per_client": each, "assignment": assignment}
    return partitions.assign(labels, keys.check_partition(whole))


def cut(labels, clients, each):
    """Return the classes of every shard, cut by hand: sorted, in equal runs, the remainder left out."""
    size, ordered = len(labels) // (clients * each), sorted(labels.tolist())
    return [set(ordered[at * size : (at + 1) * size]) for at in range(clients * each)]


def classes_of(labels, part, each):
    """Return the classes of each of a client's shards."""
    return [set(labels[piece].tolist()) for piece in np.split(part, each)]


@pytest.mark.parametrize(("spec", "digest"), BEFORE, ids=str)
def test_other_schemes_and_the_permutation_deal_what_they_dealt_before(spec, digest):
    total = hashlib.sha256()
    for seed in (1, 2, 3):
        whole = keys.check_partition({"dataset": "test", "seed": seed, "classes": 10, "clients": 20, **spec})
        for part in partitions.assign(MIXED, whole):
            total.update(part.astype("<i8").tobytes() + b";")
    assert total.hexdigest()[:16] == digest


@pytest.mark.parametrize("labels", [CIFAR10, CIFAR100], ids=["10 classes", "100 classes"])
def test_every_client_has_its_shards_of_different_classes(labels):
    for seed in range(1, 6):
        parts = deal(labels, 100, seed=seed)
        assert [len(np.unique(labels[part])) for part in parts] == [2] * 100
        assert all(np.bincount(labels[part]).max() == 250 for part in parts)
        assert sorted(np.concatenate(parts).tolist()) == list(range(50_000))


def test_a_permutation_leaves_some_a_single_class():
    """Of 10 classes with 20 shards each, two of one class: 100 * 19 / 199 clients, or 9.5, on average."""
    single = [
        sum(len(np.unique(CIFAR10[part])) == 1 for part in deal(CIFAR10, 100, seed=seed, assignment="permutation"))
        for seed in range(1, 21)
    ]
    assert np.mean(single) == pytest.approx(9.5, abs=2)


def possible(shards, clients, each):
    """Say by trying all of them whether shards can be dealt so that no client has a class twice."""

    def go(rest, held):
        if not rest:
            return True
        tried = set()
        for client, (count, classes) in enumerate(held):
            state = (count, frozenset(classes))
            if count < each and state not in tried and not classes & rest[0]:
                tried.add(state)
                if go(rest[1:], [*held[:client], (count + 1, classes | rest[0]), *held[client + 1 :]]):
                    return True
        return False

    return go(shards, [(0, set())] * clients)


def test_it_succeeds_exactly_where_there_is_a_way():
    rng, outcomes = np.random.default_rng(5), Counter()
    for _ in range(400):
        clients, each, classes = (int(rng.integers(low, high)) for low, high in ((1, 5), (1, 4), (1, 6)))
        labels = rng.choice(classes, int(rng.integers(clients * each, 25)), p=rng.dirichlet(np.ones(classes)))
        way = possible(cut(labels, clients, each), clients, each)
        outcomes[way] += 1
        if not way:
            with pytest.raises(DataError, match="more than there are clients"):
                deal(labels, clients, each)
            continue
        found = [classes_of(labels, part, each) for part in deal(labels, clients, each)]
        assert all(not one & other for own in found for one, other in itertools.combinations(own, 2))
        assert sorted(map(sorted, itertools.chain(*found))) == sorted(map(sorted, cut(labels, clients, each)))
    assert min(outcomes[True], outcomes[False]) > 100


@pytest.mark.parametrize(
    ("labels", "clients"),
    [(np.repeat([0, 1, 2, 3], 4), 4), (np.repeat([0, 1, 2, 3], [5, 3, 5, 3]), 4)],
    ids=["two of each class", "shards across two classes"],
)
def test_every_deal_that_there_is_comes_equally_often(labels, clients):
    """Against all deals of the shards' classes, found by trying every permutation; Pearson's statistic."""
    shards = [tuple(sorted(own)) for own in cut(labels, clients, 2)]
    wanted = Counter(
        tuple(tuple(sorted(pair)) for pair in zip(order[::2], order[1::2], strict=True))
        for order in itertools.permutations(shards)
        if all(not set(one) & set(other) for one, other in zip(order[::2], order[1::2], strict=True))
    )
    deals = 1000
    found = Counter(
        tuple(tuple(sorted(tuple(sorted(own)) for own in classes_of(labels, part, 2))) for part in parts)
        for parts in (deal(labels, clients, seed=seed) for seed in range(1, deals + 1))
    )
    assert found.keys() <= wanted.keys()
    expected = {way: deals * count / wanted.total() for way, count in wanted.items()}
    statistic = sum((found[way] - mean) ** 2 / mean for way, mean in expected.items())
    freedom = len(wanted) - 1
    assert statistic < freedom + 4 * (2 * freedom) ** 0.5, (statistic, freedom)


def test_tight_deals_are_found_and_differ():
    """As many shards as classes, each class on every client: one class a shard, only its shards can change places."""
    parts, other = (deal(CIFAR10, 20, each=10, seed=seed) for seed in (1, 2))
    assert all(len(np.unique(CIFAR10[part])) == 10 for part in parts)
    assert any(not np.array_equal(a, b) for a, b in zip(parts, other, strict=True))


@pytest.mark.parametrize(
    ("labels", "clients", "each", "said"),
    [
        (CIFAR10, 20, 11, "shards_per_client: 11 for 20 clients: images of class 0 are in 23 of the 220 shards"),
        (np.repeat([0, 1, 2], [2, 18, 4]), 3, 2, "images of class 1 are in 5 of the 6 shards, more than the"),
    ],
)
def test_what_has_no_way_is_refused_with_the_class(labels, clients, each, said):
    with pytest.raises(DataError, match=said) as error:
        deal(labels, clients, each)
    assert "assignment: permutation" in str(error.value)
    assert len(deal(labels, clients, each, assignment="permutation")) == clients


def test_what_the_configuration_says_reaches_the_deal():
    """The paper's reading is the default; McMahan's permutation is a split, with runs, of its own."""
    for scale in ("preview", "paper"):
        for split in ("shards2-100", "shards2-100-clique"):
            plain, other = (
                run_specs.partition_spec(EXP, scale, "dfedsam-cifar10", name, 1)
                for name in (split, "shards2-100-permutation")
            )
            assert plain.assignment == "different_classes"
            assert other == plain.model_copy(update={"assignment": "permutation"})
    others = {EXP.catalog.splits[split].scheme for split in EXP.catalog.splits} - {"shards"}
    for split in ("dir0.6-100", "path3-100", "iid-100-norep", "central-dir0.6-100"):
        others.discard(EXP.catalog.splits[split].scheme)
        assert run_specs.partition_spec(EXP, "preview", "fedsmoo-cifar10", split, 1).assignment is None
    assert others == {"domain"}


def test_more_shards_than_the_classes_of_the_preview_are_refused():
    """30 different classes are there at paper scale, of CIFAR-100, but not at preview scale, of 20."""
    many = EXP.catalog.splits["shards2-100"].model_copy(update={"shards_per_client": 30})
    protocol = "dfedsam-cifar100"

    def check(split):
        places = {"mine": "config/splits.yaml: mine"}
        mine = replace(EXP.catalog, splits={"mine": split}, split_places=places)
        compatibility.check(protocol, "mine", mine, "a table")

    with pytest.raises(ConfigError) as error:
        check(many)
    said = str(error.value)
    assert said.startswith(
        "config/splits.yaml: mine.shards_per_client: 30 is not allowed; at most 20, the classes of dat"
    )
    assert "'digits20'" in said and "preview scale" in said
    check(many.model_copy(update={"assignment": "permutation"}))
