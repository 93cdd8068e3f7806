"""Leaving one domain out, and test images drawn to every client's label distribution."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flatfed.data import dataset as datasets
from flatfed.data import keys
from flatfed.data import partition as partitions
from flatfed.errors import DataError

NAMES = ["art", "clipart", "product"]
SIZES = (23, 40, 17)
SPEC = {"dataset": "office", "seed": 1, "classes": 4, "sampler": "keyed"}
LEAVE = {**SPEC, "scheme": "domain", "held_out": 1, "clients_per_domain": 5, "clients": 10}
OFFICE = keys.DatasetSpecification(name="office", classes=4, shape=[1, 4, 4], source={"source": "npz", "path": "x"})


@pytest.fixture
def office(tmp_path):
    """80 images in three domains, the last fifth of every domain in the test part, as sources do."""
    rng = np.random.default_rng(5)
    train, test = (
        [np.full(f(size), k) for k, size in enumerate(SIZES)] for f in (lambda n: n - n // 5, lambda n: n // 5)
    )
    numbers = [np.concatenate(part) for part in (train, test)]
    parts = [(rng.integers(0, 256, (len(n), 1, 4, 4)).astype(np.uint8), np.arange(len(n)) % 4) for n in numbers]
    parts = [datasets.Part(*part, own) for part, own in zip(parts, numbers, strict=True)]
    datasets.save(tmp_path / "office", OFFICE, datasets.Images(*parts, NAMES))
    return tmp_path / "office"


def make(office, **changes):
    path = office.parent / "part.npz"
    spec = {key: value for key, value in {**LEAVE, **changes}.items() if value is not None}
    partitions.make(spec, office, path)
    return partitions.load(path)


@pytest.mark.parametrize("held_out", [0, 1, 2])
def test_the_domain_left_out_is_the_test_set_and_the_others_are_dealt_evenly(office, held_out):
    data, found = datasets.load(office), make(office, held_out=held_out)
    partitions.check(found, data, "part.npz")
    with pytest.raises(DataError, match="test is not the test images of its dataset"):
        partitions.check(replace(found, spec={**found.spec, "held_out": (held_out + 1) % 3}), data, "part.npz")
    assert np.array_equal(found.test, np.flatnonzero(data.domains == held_out))
    kept = [k for k in range(3) if k != held_out]
    parts = np.split(found.indices, found.offsets[1:-1])
    assert len(found.offsets) == 11
    for client, part in enumerate(parts):
        domain = kept[client // 5]
        assert set(data.domains[part]) == {domain}
        assert len(part) in (SIZES[domain] // 5, -(-SIZES[domain] // 5))
    together = np.sort(found.indices)
    assert np.array_equal(together, np.flatnonzero(data.domains != held_out)), "every image once, none left over"


def test_a_domain_is_dealt_alike_whichever_is_left_out_and_otherwise_for_another_seed(office):
    first, second = make(office, held_out=0), make(office, held_out=2)
    clipart = [np.split(found.indices, found.offsets[1:-1]) for found in (first, second)]
    for a, b in zip(clipart[0][:5], clipart[1][5:], strict=True):
        assert np.array_equal(a, b)
    assert make(office).digest == make(office).digest != make(office, seed=2).digest


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"held_out": 3}, "held_out: 3 is no domain of dataset 'office'; .* art, clipart, product"),
        ({"clients_per_domain": 18, "clients": 36}, "clients_per_domain: 18, but domain 'product' .* has 17 images"),
        ({"clients_per_domain": 0}, "clients_per_domain: 0 is not allowed; expected at least 1"),
        ({"clients": 15}, "clients_per_domain: 5, for 2 domains: clients: 10, not 15"),
        ({"sampler": "official"}, "no domains; allowed here: keyed"),
        ({"scheme": "domains"}, "unknown value 'domains'; did you mean 'domain'"),
    ],
)
def test_what_cannot_be_left_out_is_refused(office, changes, message):
    with pytest.raises(DataError, match=message):
        make(office, **changes)


def test_data_without_domains_or_with_an_empty_one_are_refused(tmp_path):
    part = (np.zeros((8, 1, 4, 4), np.uint8), np.arange(8) % 4)
    for domains, message in (
        (None, "dataset 'office' lists no `domains`"),
        (
            (np.zeros(8, int), np.zeros(8, int), ["art", "clipart"]),
            "domain 'clipart' of dataset 'office' holds no image",
        ),
        ((np.zeros(8, int), np.zeros(8, int), ["art"]), "has only the domain 'art'"),
    ):
        own = [datasets.Part(*part, each) for each in (domains[:2] if domains else (None, None))]
        datasets.save(tmp_path / "office", OFFICE, datasets.Images(*own, domains and domains[2]))
        with pytest.raises(DataError, match=message):
            make(tmp_path / "office", clients_per_domain=1, clients=1, held_out=0)


DIRICHLET = {"scheme": "dirichlet", "alpha": 0.3, "clients": 6, "held_out": None, "clients_per_domain": None}


@pytest.mark.parametrize("count", [1, 7, 13])
@pytest.mark.parametrize("deal", [{}, DIRICHLET])
def test_client_test_images_follow_the_clients_labels(office, deal, count):
    data, found = datasets.load(office), make(office, client_test=count, **deal)
    plain = make(office, **deal)
    assert plain.client_test is None and plain.digest != found.digest
    assert np.array_equal(plain.indices, found.indices), "the deal itself stays as it is"
    for client, drawn in enumerate(found.client_test):
        assert len(drawn) == count and np.isin(drawn, found.test).all()
        share = count * found.class_counts[client] / found.class_counts[client].sum()
        assert (np.abs(np.bincount(data.labels[drawn], minlength=4) - share) < 1).all()


def test_shares_of_client_test_images_by_hand():
    """Of 7, 2 and 1 images, 5 have shares 3.5, 1 and 0.5: the one left over goes to the first or the last, by lot."""
    labels = np.array([0] * 7 + [1] * 2 + [2] + [0, 1, 2] * 4)
    parts, test = [np.arange(10)] * 200, np.arange(10, 22)
    drawn = partitions.draw_client_test(labels, parts, test, 5, 1)
    counts = [tuple(np.bincount(labels[own], minlength=3)) for own in drawn]
    assert set(counts) == {(4, 1, 0), (3, 1, 1)} and 70 < counts.count((4, 1, 0)) < 130
    assert {tuple(np.bincount(labels[own])) for own in partitions.draw_client_test(labels, parts, test, 10, 1)} == {
        (7, 2, 1)
    }, "as many as it trains on are its own counts"


def test_client_test_draws_are_with_replacement_and_each_clients_own():
    labels = np.zeros(5000, dtype=np.int64)
    test = np.arange(4000, 5000)
    parts = list(np.arange(4000).reshape(4, 1000))
    drawn = partitions.draw_client_test(labels, parts, test, 1000, 1)
    for own in drawn:
        distinct = len(np.unique(own))
        assert abs(distinct - 1000 * (1 - np.exp(-1))) < 60, "1000 draws of 1000 leave out a share 1/e"
    assert not np.array_equal(drawn[0], drawn[1])
    again = partitions.draw_client_test(labels, parts[:2], test, 1000, 1)
    assert np.array_equal(drawn[1], again[1]), "other clients' number does not matter"


def test_the_deviation_over_clients_is_the_binomial_one_of_so_many_images():
    """A model right on 86 % of all test images: 100 for each of 2,000 clients deviate by 3.5 points, 500 by 1.6."""
    rng = np.random.default_rng(1)
    labels = np.concatenate([rng.permutation(np.arange(50_000) % 10), np.arange(10_000) % 10])
    test, parts = np.arange(50_000, 60_000), list(np.arange(50_000).reshape(2000, 25))
    right = np.zeros(60_000)
    right[test[rng.permutation(10_000)[:8600]]] = 1
    for count in (100, 500):
        drawn = partitions.draw_client_test(labels, parts, test, count, 1)
        spread = np.std([right[own].mean() for own in drawn])
        assert spread == pytest.approx(np.sqrt(0.86 * 0.14 / count), rel=0.05)


def test_client_test_needs_test_images_of_every_class():
    labels = np.array([0, 1, 2, 0, 1])
    with pytest.raises(DataError, match="clients train on class 2, but no test image is of it"):
        partitions.draw_client_test(labels, [np.arange(3)], np.array([3, 4]), 2, 1)


@pytest.mark.parametrize("count", [0, -1, 2.0, True, "3", 10_000])
def test_a_number_of_client_test_images_that_is_none_is_refused(office, count):
    words = "10000 for each client, more than the" if count == 10_000 else ".*; expected (at least 1|a whole num)"
    with pytest.raises(DataError, match=f"client_test: {words}"):
        make(office, client_test=count)
    assert not (office.parent / "part.npz").exists()


def test_damaged_client_test_is_refused(office):
    make(office, client_test=3)
    path = office.parent / "part.npz"
    arrays = {name: value for name, value in np.load(path).items() if name != "sha256"}
    for damaged in (arrays["client_test"][1:], arrays["indices"][: len(arrays["client_test"])]):
        np.savez(path, **{**arrays, "client_test": damaged})
        with pytest.raises(DataError, match="client_test does not fit"):
            partitions.load(path)
