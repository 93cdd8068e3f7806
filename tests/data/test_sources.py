"""Sources: what they make of good data, and what they say of bad."""

from __future__ import annotations

import json
import socket

import numpy as np
import pytest
from PIL import Image

from flatfed.data import dataset as datasets
from flatfed.data import sources
from flatfed.errors import DataError
from flatfed.files import read_json

NPZ = {"name": "mine", "classes": 3, "shape": [3, 8, 8]}


def arrays(**changes):
    rng = np.random.default_rng(1)
    base = {
        "train_images": rng.integers(0, 256, (12, 8, 8, 3)).astype(np.uint8),
        "train_labels": np.arange(12)[:, None] % 3,
        "test_images": rng.integers(0, 256, (6, 8, 8, 3)).astype(np.uint8),
        "test_labels": np.arange(6) % 3,
    }
    return {key: value for key, value in {**base, **changes}.items() if value is not None}


def fetch_npz(tmp_path, spec=NPZ, **changes):
    np.savez(tmp_path / "mine.npz", **arrays(**changes))
    source = {"source": "npz", "path": str(tmp_path / "mine.npz")}
    sources.fetch({**spec, "source": source}, tmp_path / "out")
    return datasets.load(tmp_path / "out")


def test_digits_are_embedded_stratified_and_reproducible(tmp_path):
    spec = {"name": "digits", "classes": 10, "shape": [1, 8, 8], "source": {"source": "sklearn", "test": 500}}
    for folder in ("a", "b"):
        sources.fetch(spec, tmp_path / folder)
    found = datasets.load(tmp_path / "a")
    assert (found.train, found.test, found.images.shape[1:]) == (1297, 500, (1, 8, 8))
    assert found.images.max() == 255 and found.digest == datasets.load(tmp_path / "b").digest
    counts = np.bincount(found.labels[found.train :])
    assert counts.min() >= 47 and counts.max() <= 52
    datasets.verify(tmp_path / "a")


def test_digits_turned_make_ten_more_classes(tmp_path):
    source = {"source": "sklearn", "test": 500, "expand": "rotate90"}
    sources.fetch({"name": "digits20", "classes": 20, "shape": [1, 8, 8], "source": source}, tmp_path)
    found = datasets.load(tmp_path)
    assert (found.train, found.test) == (2594, 1000)
    half = found.train // 2
    assert np.array_equal(found.labels[half : found.train], found.labels[:half] + 10)
    assert np.array_equal(found.images[half, 0], np.rot90(found.images[0, 0]))
    with pytest.raises(DataError, match="unknown value 'rotate'; did you mean 'rotate90'"):
        sources.fetch(
            {"name": "d", "classes": 9, "shape": [1, 8, 8], "source": {**source, "expand": "rotate"}}, tmp_path
        )


def test_npz_round_trip(tmp_path):
    found = fetch_npz(tmp_path)
    given = arrays()
    assert found.images.dtype == np.uint8 and found.images.shape == (18, 3, 8, 8)
    assert np.array_equal(found.images[:12], given["train_images"].transpose(0, 3, 1, 2))
    assert found.labels.tolist() == [*(np.arange(12) % 3), *(np.arange(6) % 3)]


def test_npz_with_domains_and_grey_images(tmp_path):
    changes = dict(train_domains=np.arange(12) % 2, test_domains=np.arange(6) % 2, domains=np.array(["art", "photo"]))
    found = fetch_npz(tmp_path, **changes)
    assert found.domain_names == ("art", "photo") and found.domains.shape == (18,)
    grey = {key: arrays()[key][..., 0] for key in ("train_images", "test_images")}
    assert fetch_npz(tmp_path, {**NPZ, "shape": [1, 8, 8]}, **grey).images.shape[1:] == (1, 8, 8)


@pytest.mark.parametrize(
    ("spec", "changes", "message"),
    [
        ({}, {"test_labels": None}, "has no array test_labels; it holds: "),
        ({}, {"train_images": np.zeros((12, 8, 8, 3))}, r"train_images is float64 .* expected uint8"),
        ({}, {"train_images": np.zeros((12, 8, 8, 4), np.uint8)}, "expected uint8, .* 1 or 3 channels"),
        ({}, {"test_labels": np.arange(5)}, "expected 6 whole numbers"),
        ({}, {"train_labels": np.array([object()] * 12)}, "cannot be read as .npz without pickles"),
        ({}, {"train_labels": np.uint8(1)}, r"train_labels is uint8 of shape \(\)"),
        ({}, {"test_images": np.zeros((0, 8, 8, 3), np.uint8)}, "test_images holds no image"),
        ({}, {"test_images": np.zeros((6, 9, 9, 3), np.uint8)}, r"test images have shape \[3, 9, 9\]"),
        ({"classes": 4}, {}, "no training image of class 3, but `classes: 4` is declared"),
        ({}, {"train_domains": np.zeros(12, int)}, "train_domains alone; expected both"),
        (
            {},
            {"train_domains": np.zeros(11, int), "test_domains": np.zeros(6, int)},
            "expected 12 whole numbers from 0",
        ),
        ({}, {"train_domains": np.zeros(12, int), "test_domains": np.full(6, -1)}, "test_domains contains -1"),
        (
            {},
            {"train_domains": np.full(12, 2), "test_domains": np.zeros(6, int), "domains": np.array(["a", "b"])},
            "has 2 names; train_domains and test_domains use numbers 0 to 2, so expected 3",
        ),
        ({"shape": [3, 32, 32]}, {}, r"images have shape \[3, 8, 8\].*is \[3, 32, 32\]"),
        ({"classes": 2}, {}, "labels go from 0 to 2, but `classes: 2` allows 0 to 1"),
        ({"train": 50_000}, {}, r"mine\.npz holds 12 training and 6 test images, but `train: 50000` is declared"),
        ({"train": 12, "test": 7}, {}, r"holds 12 training and 6 test images, but `train: 12`, `test: 7` is declared"),
        (
            {"train": 12, "test": 7},
            {},
            r"--config 'data=\{\"mine\": .*\"images\": \{\"train\": 12, \"test\": 6\}\}\}'$",
        ),
        ({"train": 12, "test": 5, "classes": 4}, {}, "6 test images, but"),
    ],
)
def test_npz_errors_name_the_array_and_the_file(tmp_path, spec, changes, message):
    with pytest.raises(DataError, match=message) as error:
        fetch_npz(tmp_path, {**NPZ, **spec}, **changes)
    assert "'mine'" in str(error.value)
    assert not (tmp_path / "out" / "dataset.json").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        (b"PK\x03\x04 garbage", "cannot be read"),
        (b"\x93NUMPY\x01\x00", "is not an .npz file"),
        (b"hello", "is not an .npz file"),
    ],
)
def test_missing_and_corrupt_npz(tmp_path, content, message):
    path = tmp_path / "x.npz"
    if content:
        path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        sources.fetch({**NPZ, "source": {"source": "npz", "path": str(path)}}, tmp_path / "out")


def test_an_npz_with_damaged_content_is_refused(tmp_path):
    """Compressed and stored members fail in different places: a broken deflate stream, a wrong checksum."""
    path = tmp_path / "x.npz"
    for save, start in ((np.savez_compressed, 150), (np.savez, 1000)):
        save(path, **arrays())
        content = bytearray(path.read_bytes())
        content[start : start + 200] = b"\x55" * 200
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"x\.npz: cannot be read"):
            sources.fetch({**NPZ, "source": {"source": "npz", "path": str(path)}}, tmp_path / "out")


def test_a_failed_fetch_leaves_the_old_dataset_whole(tmp_path):
    before = fetch_npz(tmp_path).digest
    with pytest.raises(DataError):
        fetch_npz(tmp_path, test_labels=np.arange(5))
    datasets.verify(tmp_path / "out")
    assert datasets.load(tmp_path / "out").digest == before
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["dataset.json", "images.npy", "labels.npy"]


def test_a_fetch_killed_while_writing_leaves_no_dataset(tmp_path, monkeypatch):
    """New images beside an old dataset.json would pass for a dataset."""
    fetch_npz(tmp_path)

    def killed(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(datasets.np, "save", killed)
    source = {"source": "npz", "path": str(tmp_path / "mine.npz")}
    with pytest.raises(KeyboardInterrupt):
        sources.fetch({**NPZ, "source": source}, tmp_path / "out")
    with pytest.raises(DataError, match="cannot be read as a dataset"):
        datasets.load(tmp_path / "out")


def pictures(root, folders, count=2):
    for folder in folders:
        (root / folder).mkdir(parents=True)
        for k in range(count):
            Image.new("RGB", (10, 6), (40 * k, 10, 200)).save(root / folder / f"{k}.png")
        (root / folder / ".hidden.png").write_bytes(b"not a picture")


def test_imagefolder_with_and_without_domains(tmp_path):
    pictures(tmp_path / "plain", ["train/cat", "train/dog", "test/cat", "test/dog"])
    spec = {"name": "pets", "classes": 2, "shape": [3, 8, 8]}
    source = {"source": "imagefolder", "path": str(tmp_path / "plain"), "size": 8}
    sources.fetch({**spec, "source": source}, tmp_path / "out")
    found = datasets.load(tmp_path / "out")
    assert (found.train, found.test) == (4, 4) and found.labels.tolist() == [0, 0, 1, 1] * 2
    assert found.images[1, :, 0, 0].tolist() == [40, 10, 200]
    pictures(tmp_path / "domains", ["art/cat", "art/dog", "photo/cat", "photo/dog"], count=5)
    source = {"source": "imagefolder", "path": str(tmp_path / "domains"), "size": 8, "domains": True}
    sources.fetch({**spec, "source": source}, tmp_path / "out2")
    found = datasets.load(tmp_path / "out2")
    assert found.domain_names == ("art", "photo") and (found.train, found.test) == (16, 4)
    assert np.bincount(found.domains).tolist() == [10, 10]


def test_imagefolder_errors(tmp_path):
    spec = {"name": "pets", "classes": 2, "shape": [3, 8, 8]}
    source = {"source": "imagefolder", "path": str(tmp_path / "pets"), "size": 8}
    with pytest.raises(DataError, match=r"no folder .*expected the layout train/<class>/<image>"):
        sources.fetch({**spec, "source": source}, tmp_path / "out")
    pictures(tmp_path / "pets", ["train/cat", "train/dog", "test/cat", "test/dog"])
    with pytest.raises(DataError, match=r"2 class folders .* but `classes: 3`"):
        sources.fetch({**spec, "classes": 3, "source": source}, tmp_path / "out")
    (tmp_path / "pets/train/dog/1.png").write_bytes(b"garbage")
    with pytest.raises(DataError, match=r"1\.png is not a readable image"):
        sources.fetch({**spec, "source": source}, tmp_path / "out")


def test_download_without_network_says_what_to_do(tmp_path, monkeypatch):
    def refused(*_args, **_kwargs):
        raise OSError("network is unreachable")

    monkeypatch.setattr(socket, "create_connection", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    source = {"source": "torchvision", "dataset": "CIFAR10"}
    with pytest.raises(DataError, match=r"could not download CIFAR10 .*--config 'data=\{cifar10: \{source: npz"):
        sources.fetch({"name": "cifar10", "classes": 10, "shape": [3, 32, 32], "source": source}, tmp_path)


def test_a_damaged_dataset_folder_is_noticed(tmp_path):
    fetch_npz(tmp_path)
    labels = tmp_path / "out" / "labels.npy"
    content = bytearray(labels.read_bytes())
    content[-8] ^= 1
    labels.write_bytes(content)
    with pytest.raises(DataError, match=r"not those of dataset.json"):
        datasets.verify(tmp_path / "out")
    images = tmp_path / "out" / "images.npy"
    whole = images.read_bytes()
    np.save(images, np.load(images).astype(np.float32))
    with pytest.raises(DataError, match=r"images\.npy is float32 .* declares uint8"):
        datasets.load(tmp_path / "out")
    images.write_bytes(whole[:-50])
    with pytest.raises(DataError, match="delete the folder to fetch it again"):
        datasets.load(tmp_path / "out")
    images.write_bytes(whole)
    meta = tmp_path / "out" / "dataset.json"
    described = read_json(meta)
    for damaged in (
        [],
        {},
        *({k: v for k, v in described.items() if k != key} for key in ("train", "shape", "digest")),
    ):
        meta.write_text(json.dumps(damaged))
        with pytest.raises(DataError, match="cannot be read as a dataset"):
            datasets.load(tmp_path / "out")


def test_unknown_source_is_named(tmp_path):
    with pytest.raises(DataError, match="unknown value 'nzp'; did you mean 'npz'"):
        sources.fetch({**NPZ, "source": {"source": "nzp"}}, tmp_path)
