"""torchvision's sets: from archives that the user has, and from servers that stall."""

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
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from torchvision import datasets as published
from torchvision.datasets import utils

from flatfed import cli, files, plan
from flatfed.data import dataset as datasets
from flatfed.data import sources
from flatfed.errors import ConfigError, DataError
from repository import ROOT

NAMES = ["CIFAR10", "CIFAR100", "FashionMNIST", "EMNIST"]


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def cifar(folder, kind, monkeypatch):
    """Write a small archive of CIFAR, whose checksums torchvision then expects; return its images of both parts."""
    labels = "labels" if kind is published.CIFAR10 else "fine_labels"
    lists, images = {"train_list": [], "test_list": []}, []
    with tarfile.open(folder / kind.filename, "w:gz") as archive:

        def add(name, content):
            member = tarfile.TarInfo(f"{kind.base_folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
            return md5(content)

        for number, key in enumerate(lists):
            pixels = np.arange(2 * 3072).reshape(2, 3072).astype(np.uint8) + number
            images.append(pixels.reshape(2, 3, 32, 32))
            lists[key].append([key, add(key, pickle.dumps({"data": pixels, labels: [0, 1]}))])
        names = {kind.meta["key"]: ["a", "b"]}
        meta = {**kind.meta, "md5": add(kind.meta["filename"], pickle.dumps(names))}
    archived = md5((folder / kind.filename).read_bytes())
    for key, value in {**lists, "meta": meta, "tgz_md5": archived}.items():
        monkeypatch.setattr(kind, key, value)
    return np.concatenate(images)


def idx(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def mnist(folder, kind, monkeypatch):
    """As :func:`cifar`, for FashionMNIST (four archives) and EMNIST (one)."""
    prefixes = ["emnist-byclass-train", "emnist-byclass-test"] if kind is published.EMNIST else ["train", "t10k"]
    images, contents = [], {}
    for number, prefix in enumerate(prefixes):
        images.append(np.arange(32).reshape(2, 4, 4).astype(np.uint8) + number)
        contents[f"{prefix}-images-idx3-ubyte.gz"] = gzip.compress(idx(images[-1]))
        contents[f"{prefix}-labels-idx1-ubyte.gz"] = gzip.compress(idx(np.array([0, 1], np.uint8)))
    if kind is published.EMNIST:
        with zipfile.ZipFile(folder / "gzip.zip", "w") as archive:
            for name, content in contents.items():
                archive.writestr(f"gzip/{name}", content)
        monkeypatch.setattr(kind, "md5", md5((folder / "gzip.zip").read_bytes()))
        return np.concatenate(images).transpose(0, 2, 1)[:, None]
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    monkeypatch.setattr(kind, "resources", [(name, md5(content)) for name, content in contents.items()])
    return np.concatenate(images)[:, None]


@pytest.fixture
def archives(tmp_path, monkeypatch):
    """Return a function that writes the archives of a set; there is no network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(utils, "_urlretrieve", lambda *_: pytest.fail("it was downloaded"))
    monkeypatch.setattr(utils, "_get_redirect_url", lambda *_, **__: pytest.fail("it was downloaded"))

    def write(name):
        Path("have").mkdir()
        kind = getattr(published, name)
        return (cifar if name.startswith("CIFAR") else mnist)(Path("have"), kind, monkeypatch)

    return write


def fetch(name, path, out="out"):
    shape = [3, 32, 32] if name.startswith("CIFAR") else [1, 4, 4]
    source = {"source": "torchvision", "dataset": name, **({"path": str(path)} if path else {})}
    sources.fetch({"name": "mine", "classes": 2, "shape": shape, "source": source}, out)
    return datasets.load(out)


@pytest.mark.parametrize("name", NAMES)
def test_archives_in_a_folder_take_the_place_of_a_download(archives, name):
    images = archives(name)
    loaded = fetch(name, "have")
    assert np.array_equal(loaded.images, images) and loaded.labels.tolist() == [0, 1, 0, 1]
    assert sorted(Path("have").iterdir()) == sorted(path for path in Path("have").iterdir() if path.is_file())
    Path("deep/raw").mkdir(parents=True)
    for file in Path("have").iterdir():
        shutil.move(file, Path("deep/raw", file.name))
    assert fetch(name, "deep", "again").digest == loaded.digest


@pytest.mark.parametrize("name", NAMES)
def test_other_contents_than_the_published_get_a_note_and_an_archive_proves_its_own(archives, name, capsys):
    """torchvision compares its MD5; of an .npz file only a known digest could tell."""
    images, id_ = archives(name), {"FashionMNIST": "fashion_mnist"}.get(name, name.lower())
    labels, black = np.array([0, 1]), np.zeros_like(images[:2]).transpose(0, 2, 3, 1)
    np.savez("black.npz", train_images=black, train_labels=labels, test_images=black, test_labels=labels)
    spec = {"classes": 2, "shape": list(images.shape[1:])}
    for dataset, source, noted in (
        (id_, {"source": "torchvision", "dataset": name, "path": "have"}, False),
        (id_, {"source": "npz", "path": "black.npz"}, True),
        ("mine", {"source": "npz", "path": "black.npz"}, False),
    ):
        sources.fetch({"name": dataset, **spec, "source": source}, "out")
        digest = datasets.load("out").digest[:12]
        note = f"dataset {id_!r}: these may not be the published images: their digest {digest} is unknown"
        assert (note in capsys.readouterr().err) == noted, (dataset, source)


@pytest.mark.parametrize("name", ["CIFAR10", "CIFAR100", "EMNIST"])
def test_an_archive_may_have_another_name(archives, name):
    images = archives(name)
    (only,) = Path("have").iterdir()
    only.rename("renamed")
    assert np.array_equal(fetch(name, "renamed").images, images)


@pytest.mark.parametrize("name", ["CIFAR10", "CIFAR100"])
def test_an_unpacked_archive_is_read_and_checked(archives, name):
    images, folder = archives(name), Path("unpacked", getattr(published, name).base_folder)
    with tarfile.open(next(Path("have").iterdir())) as archive:
        archive.extractall("unpacked", filter="data")
    for path in ("unpacked", folder):
        assert np.array_equal(fetch(name, path).images, images)
    (folder / "test_list").write_bytes(b"x")
    with pytest.raises(DataError, match=r"'mine': source\.path: unpacked: Dataset not found or corrupted"):
        fetch(name, "unpacked")


@pytest.mark.parametrize("name", NAMES)
def test_another_file_is_neither_unpacked_nor_downloaded(archives, monkeypatch, name):
    archives(name)
    monkeypatch.setattr(utils, "extract_archive", lambda *_: pytest.fail("it was unpacked"))
    file = sorted(Path("have").iterdir())[0]
    file.write_bytes(bytes(64))
    with pytest.raises(DataError, match=rf"source\.path: have/{file.name} is absent or has another MD5 than .*; exp"):
        fetch(name, "have")
    file.unlink()
    with pytest.raises(DataError, match=rf"have/{file.name} is absent .*expected torchvision's .*, or a folder with"):
        fetch(name, "have")


def test_the_configuration_takes_a_path_that_exists(tmp_path):
    def data(path):
        source = {"source": "torchvision", "dataset": "CIFAR10", "path": str(path)}
        return plan.load(ROOT, {"scale": "paper", "tables": [], "figures": [], "data": {"cifar10": source}})

    (tmp_path / "cifar-10-python.tar.gz").write_bytes(b"")
    for path in (tmp_path, tmp_path / "cifar-10-python.tar.gz"):
        assert data(path).catalog.sources["cifar10"].path == str(path)
    with pytest.raises(ConfigError, match=r"data\.cifar10\.path: '.*absent' does not exist; expected: the archive"):
        data(tmp_path / "absent").check()


@contextlib.contextmanager
def stalled():
    """Yield the address of a server that accepts connections and sends nothing."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_stalled_server_ends_with_a_message(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "SILENCE", 0.2)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = socket.getdefaulttimeout(), signal.getsignal(signal.SIGTERM)
    with stalled() as address:
        monkeypatch.setattr(published.CIFAR10, "url", f"{address}/cifar-10-python.tar.gz")
        with pytest.raises(DataError) as error:
            fetch("CIFAR10", None, tmp_path / "out")
    message = str(error.value)
    assert "could not download CIFAR10" in message and "timed out" in message and "Repeat the command." in message
    assert "{source: torchvision, dataset: CIFAR10, path: FILE_OR_FOLDER}" in message
    assert (socket.getdefaulttimeout(), signal.getsignal(signal.SIGTERM)) == before


def test_a_stalled_server_of_weights_ends_with_a_message(tmp_path, monkeypatch, capsys):
    from torchvision.models._api import WeightsEnum

    monkeypatch.setattr(files, "SILENCE", 0.2)
    with stalled() as address:
        weights = type("", (), {"url": f"{address}/vit-01234567.pth", "get_state_dict": WeightsEnum.get_state_dict})
        monkeypatch.setattr("torchvision.models.get_weight", lambda name: weights())
        assert cli.main(["weights", "--name", "vit_b32-imagenet", "--out", str(tmp_path / "w.safetensors")]) == 2
    message = capsys.readouterr().err
    assert "timed out" in message and "--checkpoint FILE" in message


STOPPED = """
import sys
from torchvision import datasets
from flatfed.cli import main
datasets.CIFAR10.url = sys.argv[1] + "/cifar-10-python.tar.gz"
spec = '{"name": "x", "classes": 10, "shape": [3, 32, 32], "source": {"source": "torchvision", "dataset": "CIFAR10"}}'
sys.exit(main(["fetch", "--spec", spec, "--out", "out"]))
"""


def test_a_stopped_download_leaves_nothing(tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT / "src")}
    with stalled() as address:
        job = subprocess.Popen([sys.executable, "-c", STOPPED, address], cwd=tmp_path, env=environment)
        deadline = time.monotonic() + 60
        while not list(temporary.glob("flatfed-*")) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert list(temporary.glob("flatfed-*")), "it began"
        time.sleep(0.2)
        job.send_signal(signal.SIGTERM)
        assert job.wait(timeout=30) == 128 + signal.SIGTERM
    assert not list(temporary.iterdir()) and not (tmp_path / "out").exists()
