"""Partitions: the official code's class totals exactly, and what every scheme promises."""

from __future__ import annotations

import os

import numpy as np
import pytest

from flatfed.data import dataset as datasets
from flatfed.data import keys
from flatfed.data import partition as partitions
from flatfed.data.schemes import SCHEMES
from flatfed.errors import DataError

LABELS = np.repeat(np.arange(10), 5000)


def deal(labels=LABELS, **spec):
    spec = {"dataset": "test", "seed": 1, "classes": 10, "clients": 100, **spec}
    return partitions.assign(labels, keys.check_partition(spec))


@pytest.mark.parametrize(
    ("spec", "totals", "distinct"),
    [
        (
            {"scheme": "dirichlet", "alpha": 0.6},
            [4869, 5221, 4226, 4825, 5659, 4921, 5006, 5381, 4931, 4961],
            48733,
        ),
        (
            {"scheme": "dirichlet", "alpha": 0.1},
            [6119, 5752, 5607, 4156, 5041, 4836, 6272, 3957, 3249, 5011],
            46198,
        ),
        (
            {"scheme": "pathological", "classes_per_client": 6},
            [4382, 5193, 5349, 5420, 4777, 4694, 4926, 5211, 4861, 5187],
            None,
        ),
        (
            {"scheme": "pathological", "classes_per_client": 3},
            [5157, 5272, 4614, 5604, 5204, 4751, 5153, 4653, 4954, 4638],
            None,
        ),
        (
            {"scheme": "dirichlet", "alpha": 0.1, "clients": 200},
            [6062, 5369, 5426, 4361, 5524, 4755, 5097, 4229, 4476, 4701],
            None,
        ),
    ],
)
def test_official_sampler_gives_the_official_class_totals_of_seed_20(spec, totals, distinct):
    parts = deal(seed=20, sampler="official", **spec)
    everything = np.concatenate(parts)
    assert np.bincount(LABELS[everything]).tolist() == totals
    assert distinct is None or len(np.unique(everything)) == distinct
    assert {len(part) for part in parts} == {50_000 // spec.get("clients", 100)}


def test_official_draws_followed_by_hand():
    """Two clients, two classes, four images: the official sequence of legacy draws in the plainest words."""
    labels = np.array([0, 0, 1, 1])
    rng = np.random.RandomState(5)
    order = rng.permutation(4).tolist()
    shares = rng.dirichlet([0.5, 0.5], 2)
    pools = {c: [i for i in order if labels[i] == c] for c in (0, 1)}
    unused = {c: list(pool) for c, pool in pools.items()}
    hands: list[list[int]] = [[], []]
    while len(hands[0]) + len(hands[1]) < 4:
        client = rng.randint(2)
        if len(hands[client]) == 2:
            continue
        while True:
            c = 0 if rng.uniform() <= shares[client, 0] else 1
            if unused[c]:
                break
            unused[c] = list(pools[c])
        hands[client].append(unused[c].pop())
    parts = deal(labels, scheme="dirichlet", alpha=0.5, classes=2, clients=2, seed=5, sampler="official")
    assert [part[::-1].tolist() for part in parts] == hands


CASES = [
    {"scheme": "iid"},
    {"scheme": "iid", "balanced": True},
    {"scheme": "iid", "sampler": "official"},
    {"scheme": "dirichlet", "alpha": 0.1, "replacement": True},
    {"scheme": "dirichlet", "alpha": 0.1, "replacement": False},
    {"scheme": "pathological", "classes_per_client": 3},
    {"scheme": "pathological", "classes_per_client": 3, "sampler": "official"},
    {"scheme": "shards", "shards_per_client": 2, "assignment": "different_classes"},
    {"scheme": "shards", "shards_per_client": 2, "assignment": "permutation"},
    {"scheme": "central", "clients": 1},
]


def test_every_scheme_has_a_case():
    assert {case["scheme"] for case in CASES} == set(SCHEMES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_equal_sizes_reproducible_and_different_for_another_seed(case):
    labels = np.random.default_rng(3).integers(0, 10, 1000)
    spec = {"clients": 20, **case}
    parts, again, other = deal(labels, **spec), deal(labels, **spec), deal(labels, **spec, seed=2)
    assert {len(part) for part in parts} == {1000 // spec["clients"]}
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
    assert case["scheme"] == "central" or any(not np.array_equal(a, b) for a, b in zip(parts, other, strict=True))
    everything = np.concatenate(parts)
    assert everything.min() >= 0 and everything.max() < 1000
    if case["scheme"] in ("iid", "shards", "central") or case.get("replacement") is False:
        assert len(np.unique(everything)) == len(everything)


@pytest.mark.parametrize("case", [case for case in CASES if case["scheme"] != "central"], ids=str)
def test_a_central_deal_can_have_the_images_of_the_clients_of_another(case):
    """Client after client, those dealt twice twice; the seed is that of the whole."""
    labels = np.random.default_rng(3).integers(0, 10, 1000)
    clients = {"clients": 20, **case}
    for seed in (1, 2):
        (whole,) = deal(labels, scheme="central", clients=1, images_of=clients, seed=seed)
        assert whole.tolist() == np.concatenate(deal(labels, **clients, seed=seed)).tolist()


def test_the_remainder_is_left_out_or_goes_to_the_first_client():
    labels = np.zeros(23, dtype=int)
    assert {len(p) for p in deal(labels, scheme="iid", clients=5)} == {4}
    official = deal(labels, scheme="iid", clients=5, sampler="official")
    assert [len(p) for p in official] == [7, 4, 4, 4, 4]
    pools = deal(np.arange(23) % 2, scheme="dirichlet", alpha=1.0, classes=2, clients=5, sampler="official")
    assert [len(p) for p in pools] == [7, 4, 4, 4, 4]


def test_pathological_clients_have_their_number_of_classes():
    parts = deal(scheme="pathological", classes_per_client=3)
    assert {len(np.unique(LABELS[part])) for part in parts} == {3}


def test_balanced_iid_clients_have_equal_classes():
    labels = np.repeat(np.arange(100), 500)
    parts = deal(labels, scheme="iid", balanced=True, classes=100)
    assert all((np.bincount(labels[part], minlength=100) == 5).all() for part in parts)


def test_dirichlet_shares_have_the_right_spread():
    """The variance of a Dirichlet share is (1/C)(1 - 1/C) / (C alpha + 1)."""
    counts = np.stack([np.bincount(LABELS[p], minlength=10) for p in deal(scheme="dirichlet", alpha=0.6, clients=500)])
    expected = np.sqrt(0.09 / 7 + 0.09 / 100)
    assert (counts / counts.sum(axis=1, keepdims=True)).std() == pytest.approx(expected, rel=0.08)


def test_a_class_pool_is_walked_through_before_it_repeats():
    parts = deal(np.repeat([0, 1], 10), scheme="dirichlet", alpha=1e-3, classes=2, clients=4)
    everything = np.concatenate(parts)
    uses = np.bincount(everything, minlength=20)
    for pool in (uses[:10], uses[10:]):
        assert pool.max() - pool.min() <= 1


@pytest.mark.parametrize("sampler", ["keyed", "official"])
def test_a_class_of_one_image_serves_every_client_that_wants_it(sampler):
    labels = np.concatenate([np.repeat(np.arange(9), 50), [9]])
    parts = deal(labels, scheme="pathological", classes_per_client=3, clients=10, sampler=sampler)
    assert (np.concatenate(parts) == 450).sum() > 1


def test_without_replacement_ends_even_when_every_share_is_one_class():
    parts = deal(np.repeat(np.arange(10), 10), scheme="dirichlet", alpha=1e-4, clients=10, replacement=False)
    assert sorted(np.concatenate(parts).tolist()) == list(range(100))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"scheme": "iid", "clients": 50_001}, "50001 clients, but 'test' has 50000 training images"),
        ({"scheme": "dirichelt"}, "unknown value 'dirichelt'; did you mean 'dirichlet'"),
        ({"scheme": "pathological", "classes_per_client": 11}, "classes_per_client: 11 is more than the 10"),
        (
            {"scheme": "shards", "shards_per_client": 501, "assignment": "permutation"},
            "100 clients x 501 shards are more",
        ),
        ({"scheme": "dirichlet", "alpha": 1.0, "classes": 11}, "class 10 of 11 has no training image"),
        ({"scheme": "dirichlet", "alpha": 1.0, "classes": 11, "sampler": "official"}, "class 10 of 11 has no training"),
        ({"scheme": "dirichlet", "alpha": 0}, "alpha: 0 is not allowed; expected greater than 0"),
        ({"scheme": "dirichlet", "alpha": 1e-9, "sampler": "official"}, "alpha is so small"),
        ({"scheme": "dirichlet", "alpha": 1, "replacement": False, "sampler": "official"}, "without replacement"),
        ({"scheme": "iid", "balanced": True, "sampler": "official"}, "has no class-balanced partition that can be"),
        (
            {"scheme": "shards", "shards_per_client": 2, "assignment": "permutation", "sampler": "official"},
            "has no shards; allowed here: keyed",
        ),
        (
            {"scheme": "shards", "shards_per_client": 0, "assignment": "permutation"},
            "shards_per_client: 0 is not allowed; expected at least 1",
        ),
        ({"scheme": "iid", "sampler": "oficial"}, "unknown value 'oficial'; did you mean 'official'"),
        ({"scheme": "iid", "clients": 0}, "clients: 0 is not allowed; expected at least 1"),
    ],
)
def test_what_cannot_be_dealt_is_refused(spec, message):
    with pytest.raises(DataError, match=message):
        deal(**spec)


DEAL = {"dataset": "tiny", "seed": 1, "scheme": "iid", "clients": 4, "classes": 3}


@pytest.fixture
def tiny(tmp_path):
    """The folder of a data set of 24 training and 6 test images in three classes."""
    images = np.zeros((30, 1, 8, 8), dtype=np.uint8)
    labels = np.arange(30) % 3
    spec = keys.DatasetSpecification(name="tiny", classes=3, shape=[1, 8, 8], source={"source": "npz", "path": "x"})
    parts = (datasets.Part(images[part], labels[part]) for part in (slice(24), slice(24, None)))
    datasets.save(tmp_path / "tiny", spec, datasets.Images(*parts))
    return tmp_path / "tiny"


def without_seal(path):
    """Return the arrays of a file, as of before the seals."""
    return {name: value for name, value in np.load(path).items() if name != "sha256"}


def test_altered_labels_are_not_partitioned(tiny, tmp_path):
    """They have their old time, and their shape: only the digest of the data set tells."""
    file, out = tiny / "labels.npy", tmp_path / "part.npz"
    content, times = file.read_bytes(), (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    np.save(file, np.load(file)[::-1].copy())
    os.utime(file, ns=times)
    with pytest.raises(DataError, match=r"tiny: the arrays are not those of dataset\.json; delete the folder"):
        partitions.make(DEAL, tiny, out)
    assert not out.exists()
    file.write_bytes(content)
    partitions.make(DEAL, tiny, out)
    partitions.check(partitions.load(out), datasets.load(tiny), "part.npz")


def exchanged(arrays):
    """Two clients exchange images of one class: all counts stay."""
    labels, indices = np.arange(30) % 3, arrays["indices"].copy()
    first, second = (next(at for at in places if labels[indices[at]] == 0) for places in (range(6), range(6, 24)))
    indices[[first, second]] = indices[[second, first]]
    return {"indices": indices}


EDITS = {
    "indices": exchanged,
    "test": lambda arrays: {"test": np.arange(6)},
    "class_counts": lambda arrays: {"class_counts": arrays["class_counts"][:, ::-1]},
    "spec": lambda arrays: {"spec": np.array(str(arrays["spec"]).replace('"seed": 1', '"seed": 2'))},
    "another array": lambda arrays: {"more": np.zeros(1)},
    "the seal": lambda arrays: {"sha256": np.zeros(3)},
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_sealed_partition_that_was_edited_is_refused(edit, tiny, tmp_path):
    path = tmp_path / "part.npz"
    partitions.make(DEAL, tiny, path)
    arrays = dict(np.load(path))
    np.savez(path, **{**arrays, **edit(arrays)})
    with pytest.raises(DataError, match=r"part\.npz: cannot be read as a partition .*; delete it to rebuild it"):
        partitions.load(path)


def test_a_partition_of_before_the_seals_is_the_same(tiny, tmp_path):
    path, old = tmp_path / "part.npz", tmp_path / "old.npz"
    partitions.make(DEAL, tiny, path)
    np.savez(old, **without_seal(path))
    found, before = partitions.load(path), partitions.load(old)
    assert found.digest == before.digest == "dbb748a2d912e7592de9824b00e1d1438ccc6914c0e2f80b5b3f48a00aa2c5d2"
    partitions.check(before, datasets.load(tiny), "old.npz")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (EDITS["test"], "test is not the test images of its dataset"),
        (lambda arrays: {"test": arrays["test"][1:]}, "test is not the test images of its dataset"),
        (lambda arrays: {"indices": arrays["indices"] + 3}, "indices contains an image that is not for training"),
        (lambda arrays: {"indices": arrays["indices"] - 30}, "indices contains an image that is not for training"),
        (lambda arrays: {"indices": (arrays["indices"] + 1) % 24}, "class_counts are not those of the labels"),
        (EDITS["class_counts"], "class_counts are not those of the labels"),
    ],
)
def test_an_old_partition_is_compared_with_its_data(change, words, tiny, tmp_path):
    path = tmp_path / "part.npz"
    partitions.make({**DEAL, "seed": 2}, tiny, path)
    arrays = without_seal(path)
    np.savez(path, **{**arrays, **change(arrays)})
    with pytest.raises(DataError, match=f"part.npz: {words}.*; delete it to rebuild it"):
        partitions.check(partitions.load(path), datasets.load(tiny), "part.npz")


def test_file_round_trip_and_damage(tiny, tmp_path):
    path = tmp_path / "part.npz"
    partitions.make(DEAL, tiny, path)
    first = path.read_bytes()
    partitions.make(DEAL, tiny, path)
    assert path.read_bytes() == first
    found = partitions.load(path)
    assert len(found.offsets) == 5 and found.class_counts.sum() == 24 and found.test.tolist() == list(range(24, 30))
    assert found.spec["dataset_digest"] == datasets.load(tiny).digest
    for wrong, message in (
        ({"dataset": "other"}, "holds dataset 'tiny', but the partition is of 'other'"),
        ({"classes": 4}, "holds 3 classes, but the partition is of 4"),
        ({"clients": 25}, "25 clients, but 'tiny' has 24 training images"),
    ):
        with pytest.raises(DataError, match=message):
            partitions.make({**DEAL, **wrong}, tiny, path)
    assert path.read_bytes() == first
    arrays = without_seal(path)
    for change, message in (
        ({"offsets": arrays["offsets"] + 1}, "offsets do not fit its 24 indices"),
        ({"class_counts": arrays["class_counts"] + 1}, "class_counts do not fit its 4 clients"),
        ({"spec": np.array("{")}, "cannot be read"),
    ):
        np.savez(path, **{**arrays, **change})
        with pytest.raises(DataError, match=message):
            partitions.load(path)
    path.write_bytes(first[:-40])
    with pytest.raises(DataError, match=r"part\.npz: cannot be read as a partition"):
        partitions.load(path)
