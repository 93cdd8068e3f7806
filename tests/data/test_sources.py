"""Sources of datasets: .npz files, torchvision's archives that the user has, servers that stall, digits."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import pickle
import shutil
import signal
import socket
import struct
import tarfile
import zipfile
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from tiny_data import SPEC, arrays, fetch
from torchvision import datasets as published
from torchvision.datasets import utils

from flatfed import files
from flatfed.data import dataset as datasets
from flatfed.data import sources
from flatfed.errors import DataError
from shipped import EXP


def fetch_npz(tmp_path, spec=SPEC, **changes):
    np.savez(tmp_path / "mine.npz", **arrays(**changes))
    return fetch(tmp_path / "out", "npz", tmp_path / "mine.npz", spec)


def test_arrays_become_a_dataset_with_channels_first(tmp_path):
    dataset, content = fetch_npz(tmp_path), arrays()
    assert dataset.images.dtype == np.uint8 and dataset.images.shape == (18, 3, 8, 8)
    assert np.array_equal(dataset.images[:12], content["train_images"].transpose(0, 3, 1, 2))
    assert dataset.labels.tolist() == [*(np.arange(12) % 3), *(np.arange(6) % 3)]
    grey = {key: content[key][..., 0] for key in ("train_images", "test_images")}
    column = {"train_labels": np.arange(12)[:, None] % 3}
    again = fetch_npz(tmp_path, {**SPEC, "shape": [1, 8, 8]}, **grey, **column)
    assert again.images.shape[1:] == (1, 8, 8) and np.array_equal(again.labels, dataset.labels)


#: Domains of the images, and those of one domain.
DOMAINS = {"train_domains": np.arange(12) // 2 % 2, "test_domains": np.arange(6) % 2}
PLAIN = {"train_domains": np.zeros(12, int), "test_domains": np.zeros(6, int)}


def test_domains_are_numbered_as_declared(tmp_path):
    names = np.array(["real_world", "art"])
    plain = fetch_npz(tmp_path, **DOMAINS, domains=names)
    assert plain.domain_names == ("real_world", "art")
    assert fetch_npz(tmp_path, **DOMAINS).domain_names == ("0", "1")
    declared = fetch_npz(tmp_path, {**SPEC, "domains": ["art", "real_world"]}, **DOMAINS, domains=names)
    assert declared.domain_names == ("art", "real_world")
    assert declared.domains[:12].tolist() == [1, 1, 0, 0] * 3 == [1 - domain for domain in plain.domains[:12]]


DECLARED = {"domains": ["art", "real_world"]}


@pytest.mark.parametrize(
    ("spec", "changes", "message"),
    [
        ({}, {"test_labels": None}, "has no array test_labels; it holds: "),
        ({}, {"train_images": np.zeros((12, 8, 8, 3))}, r"train_images is float64 .* expected uint8"),
        ({}, {"train_images": np.zeros((12, 8, 8, 4), np.uint8)}, "expected uint8 .* 1 or 3 channels"),
        ({}, {"train_labels": np.array([object()] * 12)}, "cannot be read as .npz without pickles"),
        ({}, {"test_images": np.zeros((0, 8, 8, 3), np.uint8)}, "test_images is .* at least one image"),
        ({}, {"test_images": np.zeros((6, 9, 9, 3), np.uint8)}, r"test images have shape \[3, 9, 9\]"),
        ({}, {**PLAIN, "test_domains": None}, "train_domains alone; expected both"),
        ({}, {**PLAIN, "train_domains": np.zeros(11, int)}, "expected 12 whole numbers"),
        ({}, {**PLAIN, "train_domains": np.full(12, 2), "domains": ["a", "b"]}, "has 2 names; .* numbers 0 to 2, .* 3"),
        (DECLARED, {**PLAIN, "domains": ["rael_world", "art"]}, "other domains: rael_world, art; expected art, real"),
        (DECLARED, {**PLAIN, "domains": ["art"]}, "has other domains: art; expected art, real_world"),
        (DECLARED, {}, "other domains: none; expected art, real_world"),
        ({"shape": [3, 32, 32]}, {}, r"images have shape \[3, 8, 8\].*is \[3, 32, 32\]"),
        ({"classes": 2}, {}, "labels 0 to 2, .* expected 0 to 1, for `classes: 2`, each among .* or correct"),
        ({"train": 12, "test": 7}, {}, r"mine\.npz holds 12 training and 6 test .*--config 'data=\{\"mine\""),
    ],
)
def test_wrong_arrays_are_named_with_their_file(tmp_path, spec, changes, message):
    with pytest.raises(DataError, match=f"'mine'.*{message}"):
        fetch_npz(tmp_path, {**SPEC, **spec}, **changes)
    assert not (tmp_path / "out" / "dataset.json").exists()


def broken(save, start):
    """Return an archive with 200 broken bytes: in a deflate stream, or under a wrong checksum."""
    file = io.BytesIO()
    save(file, **arrays())
    content = file.getvalue()
    return content[:start] + b"\x55" * 200 + content[start + 200 :]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read as .npz, .* No such file"),
        (b"\x93NUMPY\x01\x00", "cannot be read as .npz, .* not a zip file"),
        (broken(np.savez_compressed, 150), "cannot be read"),
        (broken(np.savez, 1000), "cannot be read"),
    ],
)
def test_missing_and_damaged_archives(tmp_path, content, message):
    if content:
        (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(DataError, match=rf"x\.npz: {message}"):
        fetch(tmp_path / "out", "npz", tmp_path / "x.npz")


def test_a_fetch_that_is_killed_leaves_no_dataset(tmp_path, monkeypatch):
    """New images next to an old dataset.json would pass for a dataset."""
    fetch_npz(tmp_path)
    monkeypatch.setattr(datasets.np, "save", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        fetch(tmp_path / "out", "npz", tmp_path / "mine.npz")
    with pytest.raises(DataError, match="cannot be read as a dataset"):
        datasets.load(tmp_path / "out")


NAMES = ["CIFAR10", "CIFAR100", "FashionMNIST", "EMNIST"]


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def cifar(kind, monkeypatch):
    """Write a small archive of CIFAR, whose checksums torchvision then expects; return its images of both parts."""
    labels = "labels" if kind is published.CIFAR10 else "fine_labels"
    pixels = (np.arange(4 * 3072) // 100).reshape(2, 2, 3072).astype(np.uint8)
    parts = {f"{part}_list": {"data": pixels[k], labels: [0, 1]} for k, part in enumerate(("train", "test"))}
    contents = {kind.meta["filename"]: pickle.dumps({kind.meta["key"]: ["a", "b"]})}
    contents |= {name: pickle.dumps(part) for name, part in parts.items()}
    with tarfile.open(kind.filename, "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"{kind.base_folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    for name in parts:
        monkeypatch.setattr(kind, name, [[name, md5(contents[name])]])
    monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": md5(contents[kind.meta["filename"]])})
    monkeypatch.setattr(kind, "tgz_md5", md5(Path(kind.filename).read_bytes()))
    return pixels.reshape(4, 3, 32, 32)


def idx(array):
    return gzip.compress(struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes())


def mnist(kind, monkeypatch):
    """As :func:`cifar`, for FashionMNIST (four archives) and EMNIST (one)."""
    emnist = kind is published.EMNIST
    names = ("emnist-byclass-train", "emnist-byclass-test") if emnist else ("train", "t10k")
    parts = np.split(np.arange(80 if emnist else 4), [60 if emnist else 2])
    images = [(part[:, None, None] + np.arange(16).reshape(4, 4)).astype(np.uint8) for part in parts]
    contents = {f"{name}-images-idx3-ubyte.gz": idx(part) for name, part in zip(names, images, strict=True)}
    labels = [(part % 2).astype(np.uint8) for part in parts]
    contents |= {f"{name}-labels-idx1-ubyte.gz": idx(part) for name, part in zip(names, labels, strict=True)}
    for name, content in contents.items():
        Path(name).write_bytes(content)
    monkeypatch.setattr(kind, "resources", [(name, md5(content)) for name, content in contents.items()])
    if not emnist:
        return np.concatenate(images)[:, None]
    with zipfile.ZipFile("gzip.zip", "w") as archive:
        for name in contents:
            archive.write(name, f"gzip/{name}")
            Path(name).unlink()
    monkeypatch.setattr(kind, "md5", md5(Path("gzip.zip").read_bytes()))
    return np.concatenate(images).transpose(0, 2, 1)[:, None]


@pytest.fixture
def archives(tmp_path, monkeypatch):
    """Return a function that writes the archives of a set to the folder ``have``; there is no network."""
    monkeypatch.chdir(tmp_path)
    for name in ("_urlretrieve", "_get_redirect_url"):
        monkeypatch.setattr(utils, name, lambda *_, **__: pytest.fail("it was downloaded"))

    def write(name):
        Path("have").mkdir()
        kind = getattr(published, name)
        with contextlib.chdir("have"):
            return (cifar if name.startswith("CIFAR") else mnist)(kind, monkeypatch)

    return write


def published_set(name, out="out", **keys):
    shape = [3, 32, 32] if name.startswith("CIFAR") else [1, 4, 4]
    spec = {"name": "mine", "classes": 2, "shape": shape}
    sources.fetch({**spec, "source": {"source": "torchvision", "dataset": name, **keys}}, out)
    return datasets.load(out)


@pytest.mark.parametrize("name", NAMES)
def test_archives_take_the_place_of_a_download(archives, name):
    """In a folder, below it, or a single file of any name."""
    images = archives(name)
    loaded = published_set(name, path="have")
    assert np.array_equal(loaded.images, images) and (loaded.labels == np.arange(len(images)) % 2).all()
    assert all(path.is_file() for path in Path("have").iterdir())
    Path("deep/raw").mkdir(parents=True)
    for file in Path("have").iterdir():
        shutil.move(file, Path("deep/raw", file.name))
    assert published_set(name, path="deep").digest == loaded.digest
    if name != "FashionMNIST":
        (only,) = Path("deep/raw").iterdir()
        only.rename("renamed")
        assert published_set(name, path="renamed").digest == loaded.digest


def test_other_contents_than_the_published_get_a_note_and_an_archive_proves_its_own(archives, capsys):
    """torchvision compares its MD5; of an .npz file only a known digest could tell."""
    (train, test), labels = np.split(archives("FashionMNIST")[:, 0], 2), np.array([0, 1])
    np.savez("other.npz", train_images=train, train_labels=labels, test_images=test, test_labels=labels)
    archive = {"source": "torchvision", "dataset": "FashionMNIST", "path": "have"}
    npz = {"source": "npz", "path": "other.npz"}
    for dataset, source, noted in (("fashion_mnist", archive, 0), ("fashion_mnist", npz, 1), ("mine", npz, 0)):
        sources.fetch({"name": dataset, "classes": 2, "shape": [1, 4, 4], "source": source}, "out")
        digest = datasets.load("out").digest[:12]
        note = f"dataset 'fashion_mnist': these may not be the published images: their digest {digest} is unknown"
        assert capsys.readouterr().err.count(note) == noted, (dataset, source)


def test_an_unpacked_archive_is_read_and_checked(archives):
    images, folder = archives("CIFAR10"), Path("unpacked", published.CIFAR10.base_folder)
    with tarfile.open(next(Path("have").iterdir())) as archive:
        archive.extractall("unpacked", filter="data")
    for path in ("unpacked", folder):
        assert np.array_equal(published_set("CIFAR10", path=str(path)).images, images)
    (folder / "test_list").write_bytes(b"x")
    with pytest.raises(DataError, match=r"'mine': source\.path: unpacked: Dataset not found or corrupted"):
        published_set("CIFAR10", path="unpacked")


@pytest.mark.parametrize("name", ["CIFAR10", "FashionMNIST", "EMNIST"])
def test_another_file_is_neither_unpacked_nor_downloaded(archives, monkeypatch, name):
    archives(name)
    monkeypatch.setattr(utils, "extract_archive", lambda *_: pytest.fail("it was unpacked"))
    file = sorted(Path("have").iterdir())[0]
    file.write_bytes(bytes(64))
    with pytest.raises(DataError, match=rf"source\.path: have/{file.name} is absent or has another MD5 than .*; exp"):
        published_set(name, path="have")
    file.unlink()
    with pytest.raises(DataError, match=rf"have/{file.name} is absent .*expected torchvision's .*, or a folder with"):
        published_set(name, path="have")


def test_emnist_is_drawn_in_proportion(archives):
    archives("EMNIST")
    drawn, again = (published_set("EMNIST", folder, path="have", draw=41) for folder in ("a", "b"))
    assert (drawn.train, drawn.test) == (31, 10) and drawn.digest == again.digest
    numbers = drawn.images[:, 0, 0, 0]
    assert len(set(numbers)) == 41 and (numbers[:31] < 60).all() and (numbers[31:] >= 60).all()
    assert np.array_equal(drawn.labels, numbers % 2)


@contextlib.contextmanager
def stalled():
    """Yield the address of a server that accepts connections and sends nothing."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_stalled_server_ends_with_advice(tmp_path, monkeypatch):
    """Waits for 0.2 seconds of silence."""
    monkeypatch.setattr(files, "SILENCE", 0.2)
    monkeypatch.chdir(tmp_path)
    np.savez("order.npz", train=np.arange(12), test=np.arange(6), digest="x")
    before = socket.getdefaulttimeout(), signal.getsignal(signal.SIGTERM)
    with stalled() as address:
        monkeypatch.setattr(published.CIFAR10, "url", f"{address}/cifar-10-python.tar.gz")
        with pytest.raises(DataError, match=r"could not download CIFAR10 .*timed out.* Repeat the command\.") as caught:
            published_set("CIFAR10", order="order.npz")
    for source in ("npz, path: FILE.npz", "torchvision, dataset: CIFAR10, path: FILE_OR_FOLDER"):
        assert f"{{source: {source}, order: order.npz}}" in str(caught.value)
    assert (socket.getdefaulttimeout(), signal.getsignal(signal.SIGTERM)) == before


def test_a_stopped_download_leaves_nothing(tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def begun(root, **_):
        assert Path(root).parent == temporary
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files.tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(published, "CIFAR10", begun)
    with pytest.raises(SystemExit) as end:
        published_set("CIFAR10")
    assert end.value.code == 128 + signal.SIGTERM
    assert list(tmp_path.rglob("*")) == [temporary]


DIGITS = {"name": "digits", "classes": 10, "shape": [1, 8, 8]}


#: Preview dataset -> the digest of its arrays at 064f0182, which drew the styles with SciPy.
PREVIEW = {
    "digits": "a7e1a97ce9be87b3b1351cc847dd476f4619f08afd1f0a122cf72f21530b8335",
    "digits20": "b1adbd0cdbac39072e1dbce63d374a25ace1342c5faa2cca6545ca44446619e9",
    "digits-domains4": "eb382f08eb6907e3adf28253f4a955884631329e1d96082c615464e3eb7ece46",
    "digits-domains6": "a5745e32ab2cf2965acb0d6c67e11ae66ac66793aee07258d7f5941e560c722e",
}


@pytest.mark.parametrize("name", PREVIEW)
def test_preview_images_are_those_of_before(tmp_path, name):
    entry = EXP.catalog.datasets[name]
    sources.fetch(EXP.catalog.dataset_spec(name).as_written(), tmp_path)
    digits = datasets.load(tmp_path)
    assert digits.digest == PREVIEW[name]
    pixels = digits.images[: digits.train] / 255
    assert (pixels.mean(), pixels.std()) == pytest.approx((entry.mean[0], entry.std[0]), abs=0.01)


@pytest.mark.parametrize(
    ("spec", "expand", "message"),
    [
        ({}, "rotate", "unknown value 'rotate'; did you mean 'rotate90'"),
        ({}, "styles", "styles needs a list `domains`"),
    ],
)
def test_an_expansion_that_does_not_exist_or_lacks_domains_is_refused(tmp_path, spec, expand, message):
    with pytest.raises(DataError, match=message):
        sources.fetch({**DIGITS, **spec, "source": {"source": "sklearn", "test": 500, "expand": expand}}, tmp_path)
