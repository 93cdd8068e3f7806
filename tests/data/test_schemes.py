"""Partition schemes: the official code's class totals exactly, what every scheme promises, what is refused."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from flatfed.data import keys
from flatfed.data import partition as partitions
from flatfed.data.partition import leave_one_out
from flatfed.errors import ConfigError, DataError
from flatfed.plan import checks
from shipped import EXP

CIFAR10 = np.repeat(np.arange(10), 5000)
MIXED = np.repeat(np.arange(10), 120)[np.random.default_rng(7).permutation(1200)]
PERMUTATION = {"scheme": "shards", "shards_per_client": 2, "assignment": "permutation"}


def deal(labels=CIFAR10, **spec):
    spec = {"dataset": "test", "seed": 1, "classes": 10, "clients": 100, **spec}
    return partitions.assign(labels, keys.check_partition(spec))


def shards(labels, clients, each=2, seed=1, assignment="different_classes"):
    spec = {"classes": int(labels.max()) + 1, "clients": clients, "seed": seed}
    return deal(labels, scheme="shards", shards_per_client=each, assignment=assignment, **spec)


#: Specifications, with 16 digits of the SHA-256 of what commit 9f431f1 dealt of MIXED to 20 clients, seeds 1 to 3.
#: The one of different classes is of 20bfba27.
CASES = [
    ({"scheme": "iid"}, "2e896e0a3e21a586"),
    ({"scheme": "dirichlet", "alpha": 0.1, "replacement": True}, "09f255f7e14b33bf"),
    ({"scheme": "dirichlet", "alpha": 0.1, "replacement": False}, "60955f2d44db874f"),
    ({"scheme": "pathological", "classes_per_client": 3}, "b4ded47683e8f9bf"),
    ({"scheme": "grouped_dirichlet", "alpha": 0.3}, None),
    (PERMUTATION, "5c2ee5b3c619dbf3"),
    ({**PERMUTATION, "assignment": "different_classes"}, "87befecb29ca36df"),
    ({"scheme": "central", "clients": 1}, None),
]


@pytest.mark.parametrize(("case", "digest"), CASES, ids=str)
def test_deals_are_those_of_before_of_equal_size_and_keyed_by_the_seed(case, digest):
    """A central deal can have the images of another's clients: client after client, those dealt twice twice."""
    spec, total = {"clients": 20, **case}, hashlib.sha256()
    deals = [deal(MIXED, **spec, seed=seed) for seed in (1, 2, 3)]
    for parts in deals:
        assert {len(part) for part in parts} == {1200 // spec["clients"]}
        total.update(b"".join(part.astype("<i8").tobytes() + b";" for part in parts))
    assert digest in (None, total.hexdigest()[:16])
    assert all(np.array_equal(a, b) for a, b in zip(deals[0], deal(MIXED, **spec), strict=True))
    everything, other = (np.concatenate(parts) for parts in deals[:2])
    assert everything.min() >= 0 and everything.max() < 1200
    if case["scheme"] in ("iid", "shards", "central", "grouped_dirichlet") or case.get("replacement") is False:
        assert len(np.unique(everything)) == len(everything)
    if case["scheme"] != "central":
        assert not np.array_equal(everything, other)
        (whole,) = deal(MIXED, scheme="central", clients=1, images_of=spec, seed=2)
        assert whole.tolist() == other.tolist()


def test_the_remainder_is_left_out():
    for spec in ({"scheme": "iid"}, {"scheme": "dirichlet", "alpha": 1.0, "classes": 2}):
        assert [len(part) for part in deal(np.arange(23) % 2, clients=5, **spec)] == [4] * 5


def test_the_spread_of_dirichlet_shares():
    """The variance of a Dirichlet share is (1/C)(1 - 1/C) / (C alpha + 1)."""
    parts = deal(scheme="dirichlet", alpha=0.6, clients=500)
    counts = np.stack([np.bincount(CIFAR10[part], minlength=10) for part in parts])
    expected = np.sqrt(0.09 / 7 + 0.09 / 100)
    assert (counts / counts.sum(axis=1, keepdims=True)).std() == pytest.approx(expected, rel=0.08)


def test_a_class_pool_is_walked_through_before_it_repeats():
    parts = deal(np.repeat([0, 1], 10), scheme="dirichlet", alpha=1e-3, classes=2, clients=4)
    assert all(np.ptp(np.bincount(np.concatenate(parts), minlength=20).reshape(2, 10), axis=1) <= 1)
    parts = deal(np.repeat(np.arange(10), 10), scheme="dirichlet", alpha=1e-4, clients=10, replacement=False)
    assert sorted(np.concatenate(parts).tolist()) == list(range(100)), "it ends even if every share is one class"
    labels = np.concatenate([np.repeat(np.arange(9), 50), [9]])
    parts = deal(labels, scheme="pathological", classes_per_client=3, clients=10)
    assert (np.concatenate(parts) == 450).sum() > 1, "a class of one image serves every client that wants it"


NO_WAY = np.repeat([0, 1, 2], [2, 18, 4])
ELEVEN = {"scheme": "dirichlet", "alpha": 1.0, "classes": 11}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (ELEVEN, "class 10 of 11 has no training image"),
        (
            {**PERMUTATION, "assignment": "different_classes", "clients": 3, "classes": 3, "labels": NO_WAY},
            "shards_per_client: 2 .* class 1 are in 5 of the 6 .*assignment: permutation",
        ),
    ],
)
def test_what_cannot_be_dealt_is_refused(spec, message):
    with pytest.raises(DataError, match=message):
        deal(**spec)


@pytest.mark.parametrize(("labels", "clients", "each"), [(CIFAR10, 100, 2), (MIXED, 20, 10)])
def test_every_client_has_its_shards_of_different_classes(labels, clients, each):
    """Ten of each of 20 clients are tight: each class on every client."""
    parts = shards(labels, clients, each, 1)
    assert {len(np.unique(labels[part])) for part in parts} == {each}
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(labels)))


def test_more_shards_than_the_classes_of_the_preview_are_refused():
    """30 different classes are there at paper scale, of CIFAR-100, but not at preview scale, of 20."""
    split = EXP.catalog.splits["shards2-100"].model_copy(update={"shards_per_client": 30})
    catalog = replace(EXP.catalog, splits={"mine": split}, split_places={"mine": "config/splits.yaml: mine"})
    with pytest.raises(ConfigError, match=r"mine\.shards_per_client: 30 is not allowed; at most 20, .*preview scale"):
        checks.check_fit(catalog, "dfedsam-cifar100", "mine")


NAMES, SIZES = ["art", "clipart", "product"], (23, 40, 17)
DOMAINS = np.random.default_rng(5).permutation(np.repeat(np.arange(3), SIZES))


def leave_out(numbers=DOMAINS, names=NAMES, **changes):
    """Return every client's positions and the test set, of five clients to a domain."""
    spec = {"dataset": "office", "seed": 1, "classes": 4, "scheme": "domain", "clients_per_domain": 5, **changes}
    return leave_one_out(numbers, names, keys.check_partition(spec))


def test_the_domain_left_out_is_the_test_set_and_the_others_are_dealt_evenly():
    """In the same way whichever is left out, and in another for another seed."""
    dealt = {}
    for held_out in range(3):
        parts, test = leave_out(held_out=held_out)
        assert np.array_equal(test, np.flatnonzero(held_out == DOMAINS)) and len(parts) == 10
        kept = [domain for domain in range(3) if domain != held_out]
        for client, part in enumerate(parts):
            domain = kept[client // 5]
            assert set(DOMAINS[part]) == {domain}
            assert len(part) in (SIZES[domain] // 5, -(-SIZES[domain] // 5))
        assert sorted(np.concatenate(parts)) == sorted(np.flatnonzero(held_out != DOMAINS)), "every image once"
        dealt[held_out] = [part.tolist() for part in parts]
    assert dealt[0][:5] == dealt[2][5:]
    assert dealt[0] != [part.tolist() for part in leave_out(held_out=0, seed=2)[0]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clients_per_domain": 18}, "clients_per_domain: 18, but domain 'product' .* has 17 images"),
        ({"numbers": np.zeros(8, int)}, "domain 'clipart' of dataset 'office' has 0 images"),
    ],
)
def test_what_cannot_be_left_out_is_refused(changes, message):
    with pytest.raises(DataError, match=message):
        leave_out(**{"held_out": 1, **changes})
