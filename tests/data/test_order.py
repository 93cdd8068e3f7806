"""The order of published images: whoever has them in another order makes the same data set, and is told where not."""

from __future__ import annotations

import json
import runpy
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from torchvision import datasets as published

from flatfed.data import dataset as datasets
from flatfed.data import sources
from flatfed.data.manifest import DIGESTS
from flatfed.errors import DataError
from repository import ROOT
from shipped import EXP

STUDY = runpy.run_path(str(ROOT / "studies/order.py"))
SPEC = {"name": "mine", "classes": 3, "shape": [3, 4, 4]}
DOMAINS = {
    "domains": np.array(["photo", "sketch"]),
    "train_domains": np.arange(12) % 2,
    "test_domains": np.arange(6) % 2,
}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def archive(name: str, *, shuffled: int | None = None, **changes) -> None:
    """Write an archive of twelve and six images, two of each part the same, in the order of the seed ``shuffled``."""
    rng = np.random.default_rng(1)
    content = {
        "train_images": rng.integers(0, 256, (12, 4, 4, 3)).astype(np.uint8),
        "train_labels": np.arange(12) % 3,
        "test_images": rng.integers(0, 256, (6, 4, 4, 3)).astype(np.uint8),
        "test_labels": np.arange(6) % 3,
    }
    for part in ("train", "test"):
        content[f"{part}_images"][3] = content[f"{part}_images"][0]  # with one label
        content[f"{part}_images"][4] = content[f"{part}_images"][0]  # with another
    content |= changes
    if shuffled is not None:
        for part in ("train", "test"):
            places = np.random.default_rng(shuffled).permutation(len(content[f"{part}_labels"]))
            for name_ in [each for each in content if each.startswith(part)]:
                content[name_] = content[name_][places]
    np.savez(name, **content)


def fetch(name: str, out: str, spec=SPEC, **source) -> datasets.Dataset:
    sources.fetch({**spec, "source": {"source": "npz", "path": name, **source}}, out)
    return datasets.load(out)


@pytest.mark.parametrize("more", [{}, DOMAINS])
def test_images_in_another_order_are_put_into_the_one_written_down(monkeypatch, more):
    spec = {**SPEC, "domains": ["sketch", "photo"]} if more else SPEC
    archive("ours.npz", **more)
    ours = fetch("ours.npz", "ours", spec)
    monkeypatch.setattr(sys, "argv", ["order.py", "ours", "--out", "order.npz"])
    STUDY["main"]()
    archive("theirs.npz", shuffled=5, **more)
    assert fetch("theirs.npz", "plain", spec).digest != ours.digest
    theirs = fetch("theirs.npz", "theirs", spec, order="order.npz")
    assert theirs.digest == ours.digest
    assert np.array_equal(theirs.images, ours.images) and np.array_equal(theirs.labels, ours.labels)
    kept = json.loads(Path("theirs/dataset.json").read_text())
    assert kept == json.loads(Path("ours/dataset.json").read_text()), "no path of one machine, and nothing trains again"


def test_a_download_is_put_into_order(monkeypatch):
    archive("ours.npz")
    ours = fetch("ours.npz", "ours")
    STUDY["write"]("ours", "order.npz")
    archive("theirs.npz", shuffled=2)
    theirs = np.load("theirs.npz")

    class Download:
        def __init__(self, root, *, train, download):
            part = "train" if train else "test"
            self.data, self.targets = theirs[f"{part}_images"], theirs[f"{part}_labels"].tolist()

    monkeypatch.setattr(published, "CIFAR10", Download)
    sources.fetch({**SPEC, "source": {"source": "torchvision", "dataset": "CIFAR10", "order": "order.npz"}}, "theirs")
    assert datasets.load("theirs").digest == ours.digest


def test_a_file_of_an_order_has_the_ranks_of_images_by_their_digests():
    """By hand: image k of a part lies behind as many as have a smaller SHA-256 of pixels, label and domain."""
    from hashlib import sha256

    archive("ours.npz")
    ours = fetch("ours.npz", "ours")
    STUDY["write"]("ours", "order.npz")
    told = np.load("order.npz")
    assert sorted(told.files) == ["digest", "test", "train"] and str(told["digest"]) == ours.digest
    keys = [
        sha256(ours.images[k].tobytes() + int(ours.labels[k]).to_bytes(8, "little") + bytes(8)).digest()
        for k in range(12)
    ]
    ranks = [sum(other < key for other in keys) for key in keys]
    assert sorted(set(ranks)) == sorted(ranks[:3] + ranks[4:]), "the fourth is the first again, and no other twice"
    assert [rank for k, rank in enumerate(told["train"]) if k != 3] == [rank for k, rank in enumerate(ranks) if k != 3]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train_labels": (np.arange(12) + 1) % 3}, r"was written for other images.*remove `order`"),
        ({"test_images": np.zeros((6, 4, 4, 3), np.uint8)}, "was written for other images"),
        ({"test_images": np.zeros((6, 5, 5, 3), np.uint8)}, "was written for other images"),
        (
            {"train_images": np.zeros((9, 4, 4, 3), np.uint8), "train_labels": np.arange(9) % 3},
            r"dataset 'mine': source\.order: order\.npz orders 12 train images, not 9",
        ),
    ],
)
def test_other_images_are_refused_and_what_stood_there_stays(changes, words):
    archive("ours.npz")
    before = fetch("ours.npz", "out")
    STUDY["write"]("out", "order.npz")
    archive("theirs.npz", **changes)
    with pytest.raises(DataError, match=words):
        fetch("theirs.npz", "out", order="order.npz")
    assert datasets.load("out").digest == before.digest
    datasets.verify("out")


GOOD = {"train": np.arange(12), "test": np.arange(6), "digest": "x"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"digest": None}, "digest"),
        ({"train": np.zeros(12, int)}, "train does not name every position once"),
        ({"train": np.arange(12).reshape(3, 4)}, "train does not name every position once"),
        ({"train": np.array(0)}, "train does not name every position once"),
        ({"test": np.arange(6.0)}, "test does not name every position once"),
        ({"digest": np.array(["x", "y"])}, "digest is not a text"),
        ({"digest": 7}, "digest is not a text"),
    ],
)
def test_a_file_that_holds_no_order_is_refused(changes, words):
    archive("ours.npz")
    np.savez("order.npz", **{key: value for key, value in {**GOOD, **changes}.items() if value is not None})
    with pytest.raises(DataError, match=rf"order\.npz cannot be read as one that studies/order\.py wrote .*{words}"):
        fetch("ours.npz", "out", order="order.npz")
    assert not Path("out/dataset.json").exists()


def a_text(path: Path) -> None:
    path.write_text("the order of things")


def an_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.arange(12))


def no_arrays(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name in GOOD:
            file.writestr(f"{name}.npy", b"none")
            file.writestr(name, b"none")


def claims_more_than_there_is(path: Path) -> None:
    header = b"\x93NUMPY\x01\x00" + (78).to_bytes(2, "little")
    header += b"{'descr': '<i8', 'fortran_order': False, 'shape': (10000000000000,), }".ljust(77) + b"\n"
    with zipfile.ZipFile(path, "w") as file:
        for name in GOOD:
            file.writestr(f"{name}.npy", header)


def cut(path: Path) -> None:
    np.savez(path, **GOOD)
    path.write_bytes(path.read_bytes()[:-40])


@pytest.mark.parametrize("make", [a_text, an_array, no_arrays, claims_more_than_there_is, cut])
def test_a_file_of_another_kind_is_refused_before_anything_is_downloaded(make, monkeypatch):
    monkeypatch.setattr(published, "CIFAR10", None)
    make(Path("order.npz"))
    source = {"source": "torchvision", "dataset": "CIFAR10", "order": "order.npz"}
    with pytest.raises(DataError, match=r"order\.npz cannot be read as one that studies/order\.py wrote") as told:
        sources.fetch({**SPEC, "source": source}, "out")
    assert "allow_pickle" not in str(told.value)


def test_without_a_network_the_order_is_in_the_advice(monkeypatch):
    def refused(*_args, **_kwargs):
        raise OSError("network is unreachable")

    np.savez("order.npz", **GOOD)
    monkeypatch.setattr(published, "CIFAR10", refused)
    source = {"source": "torchvision", "dataset": "CIFAR10", "order": "order.npz"}
    with pytest.raises(DataError, match=r"source: npz, path: FILE\.npz, order: order\.npz\}\}'"):
        sources.fetch({**SPEC, "source": source}, "out")


def test_no_file_or_a_damaged_data_set():
    archive("ours.npz")
    with pytest.raises(DataError, match=r"order\.npz: no such file; `python studies/order.py DATASET --out FILE`"):
        fetch("ours.npz", "out", order="order.npz")
    fetch("ours.npz", "out")
    labels = np.load("out/labels.npy")
    np.save("out/labels.npy", labels[::-1])
    with pytest.raises(DataError, match=r"not those of dataset\.json"):
        STUDY["write"]("out", "order.npz")


def test_the_published_order_is_that_of_all_published_runs():
    told = np.load(ROOT / "results/published/orders/cifar10.npz")
    assert np.array_equal(np.sort(told["train"]), np.arange(50000))
    assert np.array_equal(np.sort(told["test"]), np.arange(10000))
    records = [path for name in ("run", "run.so-far") for path in (ROOT / "results/published").rglob(f"{name}.json")]
    assert len(records) > 96
    digests = {json.loads(path.read_text())["dataset_digest"] for path in records}
    assert digests == {str(told["digest"])} and digests <= {*DIGESTS["cifar10"]}


def test_every_dataset_that_torchvision_publishes_is_listed():
    entries = EXP.catalog.datasets.items()
    assert {name for name, entry in entries if entry.source.source == "torchvision"} == DIGESTS.keys()
