"""The order of published images: whoever has them in another order makes the same dataset, and is told where not."""

from __future__ import annotations

import json
import runpy
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import tiny_data
from torchvision import datasets as published

from flatfed.data import dataset as datasets
from flatfed.data import sources
from flatfed.data.manifest import DIGESTS
from flatfed.errors import DataError
from repository import ROOT
from shipped import EXP

STUDY = runpy.run_path(str(ROOT / "studies/order.py"))
DOMAINS = {"train_domains": np.arange(12) % 2, "test_domains": np.arange(6) % 2, "domains": ["photo", "sketch"]}


@pytest.fixture(autouse=True)
def ours(tmp_path, monkeypatch):
    """The dataset ``ours`` of the archive ours.npz in the current folder, and its order in order.npz."""
    monkeypatch.chdir(tmp_path)
    archive("ours.npz")
    dataset = fetch("ours.npz", "ours")
    STUDY["write"]("ours", "order.npz")
    return dataset


def archive(name, *, shuffled=None, **changes):
    """Write an archive, three images of each part the same, in the order of the seed ``shuffled``."""
    content = tiny_data.arrays()
    for part in ("train", "test"):
        content[f"{part}_images"][3:5] = content[f"{part}_images"][0]  # with one label, and with another
    content |= changes
    for part in ("train", "test") if shuffled is not None else ():
        positions = np.random.default_rng(shuffled).permutation(len(content[f"{part}_labels"]))
        content |= {key: array[positions] for key, array in content.items() if key.startswith(part)}
    np.savez(name, **content)


def fetch(path, out, spec=tiny_data.SPEC, **source):
    return tiny_data.fetch(out, "npz", path, spec, **source)


@pytest.mark.parametrize("more", [{}, DOMAINS], ids=["", "domains"])
def test_images_in_another_order_are_put_into_the_one_written_down(monkeypatch, more):
    spec = {**tiny_data.SPEC, "domains": ["sketch", "photo"]} if more else tiny_data.SPEC
    archive("ours.npz", **more)
    ours = fetch("ours.npz", "ours", spec)
    monkeypatch.setattr(sys, "argv", ["order.py", "ours", "--out", "order.npz"])
    STUDY["main"]()
    archive("theirs.npz", shuffled=5, **more)
    assert fetch("theirs.npz", "plain", spec).digest != ours.digest
    theirs = fetch("theirs.npz", "theirs", spec, order="order.npz")
    assert theirs.digest == ours.digest
    assert np.array_equal(theirs.images, ours.images) and np.array_equal(theirs.labels, ours.labels)
    kept, before = (json.loads(Path(folder, "dataset.json").read_text()) for folder in ("theirs", "ours"))
    assert kept == before, "no path of one machine, and nothing trains again"


CIFAR = {"source": "torchvision", "dataset": "CIFAR10", "order": "order.npz"}


def test_a_file_of_an_order_has_the_ranks_of_images_by_their_digests(ours):
    """By hand: image k of a part lies behind as many as have a smaller SHA-256 of pixels, label and domain."""
    order = np.load("order.npz")
    assert sorted(order.files) == ["digest", "test", "train"] and str(order["digest"]) == ours.digest
    facts = [ours.images[k].tobytes() + int(ours.labels[k]).to_bytes(8, "little") + bytes(8) for k in range(12)]
    keys = [sha256(fact).digest() for fact in facts]
    ranks = [sum(other < key for other in keys) for key in keys]
    assert sorted(set(ranks)) == sorted(ranks[:3] + ranks[4:]), "the fourth is the first again, and no other twice"
    assert np.delete(order["train"], 3).tolist() == np.delete(ranks, 3).tolist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_labels": (np.arange(12) + 1) % 3}, r"was written for other images.*remove `order`"),
        ({"test_images": np.zeros((6, 5, 5, 3), np.uint8)}, "was written for other images"),
        (
            {"train_images": np.zeros((9, 8, 8, 3), np.uint8), "train_labels": np.arange(9) % 3},
            r"dataset 'mine': source\.order: order\.npz orders 12 train images, not 9",
        ),
    ],
)
def test_other_images_are_refused_and_the_old_dataset_stays(ours, changes, message):
    archive("theirs.npz", **changes)
    with pytest.raises(DataError, match=message):
        fetch("theirs.npz", "ours", order="order.npz")
    assert datasets.load("ours").digest == ours.digest
    datasets.verify("ours")


@pytest.mark.parametrize("cut", [False, True])
def test_a_file_that_holds_no_order_is_refused_before_anything_is_downloaded(cut, monkeypatch):
    monkeypatch.setattr(published, "CIFAR10", None)
    np.savez("order.npz", train=np.arange(12), test=np.arange(6), **({"digest": "x"} if cut else {}))
    if cut:
        Path("order.npz").write_bytes(Path("order.npz").read_bytes()[:-40])
    with pytest.raises(DataError, match=r"order\.npz cannot be read as one that studies/order\.py wrote "):
        sources.fetch({**tiny_data.SPEC, "source": CIFAR}, "out")
    assert not Path("out").exists()


@pytest.mark.parametrize("train", [np.zeros(12), np.arange(12) + 5, np.arange(12)[::-1], np.zeros((12, 2), int)])
def test_wrong_ranks_are_those_of_other_images(ours, train):
    np.savez("order.npz", **{**np.load("order.npz"), "train": train})
    with pytest.raises(DataError, match=r"source\.order: order\.npz was written for other images"):
        fetch("ours.npz", "again", order="order.npz")


def test_the_published_order_is_that_of_all_published_runs():
    order = np.load(ROOT / "results/published/orders/cifar10.npz")
    assert np.array_equal(np.sort(order["train"]), np.arange(50000))
    assert np.array_equal(np.sort(order["test"]), np.arange(10000))
    records = [path for name in ("run", "run.so-far") for path in (ROOT / "results/published").rglob(f"{name}.json")]
    assert len(records) > 96
    digests = {json.loads(path.read_text())["dataset_digest"] for path in records}
    assert digests == {str(order["digest"])} and digests <= {*DIGESTS["cifar10"]}
    entries = EXP.catalog.datasets.items()
    assert {name for name, entry in entries if entry.source.source == "torchvision"} == DIGESTS.keys()
