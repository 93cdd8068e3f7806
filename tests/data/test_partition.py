"""Files of partitions, test images of clients, the validation part that choices are made on."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_data import save

from flatfed.data import dataset as datasets
from flatfed.data import partition as partitions
from flatfed.data.dataset import Images, Part
from flatfed.data.keys import check_dataset
from flatfed.data.partition import Partition, draw_client_test, hold_out, repetition
from flatfed.errors import DataError

IID = {"dataset": "tiny", "seed": 1, "scheme": "iid", "clients": 4, "classes": 3}
OFFICE = {"dataset": "office", "seed": 1, "classes": 4}
LEAVE_OUT = {**OFFICE, "scheme": "domain", "held_out": 1, "clients_per_domain": 5}


@pytest.fixture
def tiny(tmp_path):
    """The folder of a dataset of 24 training and 6 test images in three classes."""
    return save(tmp_path, "tiny", 3, 24, 6)


@pytest.fixture
def office(tmp_path):
    """80 images in four classes and three domains, the last fifth of every domain in the test part, as sources do."""
    numbers = [np.repeat([0, 1, 2], sizes) for sizes in ((19, 32, 14), (4, 8, 3))]
    return save(tmp_path, "office", 4, 65, 15, (*numbers, ["art", "clipart", "product"]))


def make(folder, content, name="part.npz"):
    """Partition the dataset in ``folder``; return the file and the partition in it."""
    path = folder.parent / name
    partitions.make(content, folder, path)
    return path, partitions.load(path)


def test_a_file_is_that_of_its_specification_and_wrong_ones_leave_it(tiny):
    path, partition = make(tiny, IID)
    first = path.read_bytes()
    make(tiny, IID)
    assert path.read_bytes() == first
    assert len(partition.offsets) == 5 and partition.class_counts.sum() == 24
    assert partition.test.tolist() == list(range(24, 30))
    assert partition.spec["dataset_digest"] == datasets.load(tiny).digest
    with pytest.raises(DataError, match="holds dataset 'tiny', but the partition is of 'other'"):
        make(tiny, {**IID, "dataset": "other"})
    with pytest.raises(DataError, match=r"partition: 25 clients, but .*tiny has 24 training images"):
        make(tiny, {**IID, "clients": 25})
    assert path.read_bytes() == first


@pytest.mark.parametrize("array", ["indices", "offsets", "test", "class_counts", "spec", "sha256", "more", None])
def test_a_sealed_partition_that_was_edited_or_cut_is_refused(array, tiny):
    path, _ = make(tiny, IID)
    if array:
        np.savez(path, **{**np.load(path), array: np.zeros(3)})
    else:
        path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"part\.npz: cannot be read as a partition .*; delete it to rebuild it"):
        partitions.load(path)


def test_a_missing_partition_is_not_called_unreadable(tmp_path):
    with pytest.raises(DataError, match=r"part\.npz: does not exist; build it: snakemake --cores 1 -- .*part\.npz$"):
        partitions.load(tmp_path / "part.npz")


def test_the_digest_of_a_partition_is_that_of_before(tiny):
    """Finished runs have it."""
    assert make(tiny, IID)[1].digest == "dbb748a2d912e7592de9824b00e1d1438ccc6914c0e2f80b5b3f48a00aa2c5d2"


def test_small_classes_that_repeat_are_counted(tiny, capsys):
    parts = [np.array([0, 0, 0, 0, 0, 1]), np.array([2, 3, 0, 0, 0, 0])]
    assert repetition(parts) is None, "nine uses"
    assert repetition([*parts, np.array([0, 5, 6, 7])]) == {"uses": 10, "distinct": 2}
    skewed = {**IID, "scheme": "dirichlet", "alpha": 0.1}
    make(tiny, skewed)
    assert capsys.readouterr().err == ""
    labels = np.array([0] + [1] * 11 + [2] * 12 + [0, 1, 2] * 2)
    parts = [Part(np.zeros((len(of), 1, 8, 8), np.uint8), of) for of in (labels[:24], labels[24:])]
    about = {"name": "tiny", "classes": 3, "shape": [1, 8, 8], "source": {"source": "npz", "path": "x"}}
    datasets.save(tiny, check_dataset(about), Images(*parts))
    capsys.readouterr()
    _, partition = make(tiny, {**skewed, "replacement": True})
    uses = np.bincount(partition.indices).max()
    distinct = min(len(np.unique(part)) for part in np.split(partition.indices, partition.offsets[1:-1]))
    text = f"partition: an image is used {uses} times; each client has at least {distinct} distinct images\n"
    assert uses >= 10 and capsys.readouterr().err == text


def test_client_test_images_change_the_digest_and_not_the_deal(office):
    (_, plain), (_, partition) = make(office, LEAVE_OUT), make(office, {**LEAVE_OUT, "client_test": 7})
    assert plain.client_test is None and partition.digest != plain.digest
    assert np.array_equal(plain.indices, partition.indices)
    assert all(len(drawn) == 7 and np.isin(drawn, partition.test).all() for drawn in partition.client_test)


def test_shares_of_client_test_images_by_hand():
    """Of 7, 2 and 1 images, 5 have shares 3.5, 1 and 0.5: the one left over goes to the first or the last, by lot."""
    labels = np.array([0] * 7 + [1] * 2 + [2] + [0, 1, 2] * 4)
    parts, test = [np.arange(10)] * 200, np.arange(10, 22)
    counts = [tuple(np.bincount(labels[drawn], minlength=3)) for drawn in draw_client_test(labels, parts, test, 5, 1)]
    assert set(counts) == {(4, 1, 0), (3, 1, 1)} and 70 < counts.count((4, 1, 0)) < 130
    counts = {tuple(np.bincount(labels[drawn])) for drawn in draw_client_test(labels, parts, test, 10, 1)}
    assert counts == {(7, 2, 1)}, "as many as it trains on are its own counts"


def test_wrong_numbers_and_classes_of_client_test_images_are_refused(office):
    with pytest.raises(DataError, match="client_test: 99 for each client, more"):
        make(office, {**LEAVE_OUT, "client_test": 99})
    assert not (office.parent / "part.npz").exists()
    with pytest.raises(DataError, match="clients train on class 2, but no test image is of it"):
        draw_client_test(np.array([0, 1, 2, 0, 1]), [np.arange(3)], np.array([3, 4]), 2, 1)


LABELS = np.arange(300) % 10


def dealt(parts):
    """Return a partition of images 0 to 199, of which 200 to 299 are the test images."""
    counts = np.stack([np.bincount(LABELS[part], minlength=10) for part in parts])
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    drawn = [np.arange(200, 200 + len(part)) for part in parts]
    return Partition(np.concatenate(parts), offsets, np.arange(200, 300), counts, {}, "digest", drawn)


def test_every_client_gives_up_its_share_and_keeps_the_rest_in_order():
    parts = np.split(np.random.default_rng(0).permutation(200), [9, 30, 130])
    partition = hold_out(dealt(parts), LABELS, 0.1, seed=1)
    kept = np.split(partition.indices, partition.offsets[1:-1])
    assert [len(before) - len(after) for before, after in zip(parts, kept, strict=True)] == [0, 2, 10, 7]
    for before, after in zip(parts, kept, strict=True):
        assert after.tolist() == [image for image in before if image not in partition.validation]
    assert sorted([*partition.indices, *partition.validation]) == list(range(200))
    assert partition.class_counts.tolist() == [np.bincount(LABELS[part], minlength=10).tolist() for part in kept]
    assert not len(partition.test) and partition.client_test is None, "the test images are not there"
    decimal = hold_out(dealt([np.arange(100)]), LABELS, 0.29, seed=1)
    assert len(decimal.validation) == 29, "0.29 * 100 is 28.999999999999996"


def test_validation_is_drawn_by_the_seed_and_for_each_client_by_itself():
    parts = np.split(np.arange(200), 4)
    first, again, other = (hold_out(dealt(parts), LABELS, 0.2, seed).validation.tolist() for seed in (1, 1, 2))
    assert first == again != other and len({tuple(image % 50 for image in first[k : k + 10]) for k in (0, 10, 20)}) == 3
    fewer = hold_out(dealt(parts[:2]), LABELS, 0.2, seed=1).validation.tolist()
    assert fewer == [image for image in first if image < 100]


def test_an_image_of_several_clients_is_held_out_of_all():
    """Dealt with replacement, as in FedSMOO's official code: clients share images, and have some twice."""
    rng = np.random.default_rng(3)
    many = hold_out(dealt([rng.integers(0, 60, 50) for _ in range(6)]), LABELS, 0.2, seed=1)
    assert not set(many.indices) & set(many.validation)
    assert len(many.validation) == len(set(many.validation)) > 0
    few = hold_out(dealt([np.arange(20), np.arange(10, 30), np.array([40, 41, 41])]), LABELS, 0.25, seed=1)
    one, two, three = map(set, few.client_validation)
    held = set(few.validation)
    assert one == held & set(range(20)) and two == held & set(range(10, 30)) and not three
    assert one & two, "what one gave up of the images that both had is validated on for both"
    assert one | two == held


def test_a_share_that_leaves_nothing_is_refused():
    with pytest.raises(DataError, match=r"share of 0\.01 holds out no image; clients have at most 50"):
        hold_out(dealt(np.split(np.arange(200), 4)), LABELS, 0.01, seed=1)
    with pytest.raises(DataError, match=r"share of 0\.9 leaves client 1 none of its 2 images"):
        hold_out(dealt([np.arange(20), np.array([3, 3])]), LABELS, 0.9, seed=1)
