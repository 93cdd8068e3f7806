"""Nothing from disk is unpickled without a checksum: by what the source says, and with files that would do harm."""

from __future__ import annotations

import ast
import hashlib
import io
import json
import os
import pickle
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision import datasets as published
from torchvision.datasets import utils
from torchvision.models import WeightsEnum

from flatfed import cli
from flatfed.data import sources
from flatfed.engine.job.checkpoint import FOLDER
from flatfed.errors import DataError
from harness import description, write_problem
from made import recorded
from repository import ROOT

UNPICKLE = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}


class Harm:
    """What makes a folder called ``harm`` when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("harm",)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not Path("harm").exists(), "a file was unpickled"


def loads(file):
    """Return what ``file`` imports or calls of things that unpickle, as ``line: what``."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call):
            told = {word.arg: ast.unparse(word.value) for word in node.keywords}
            call = ast.unparse(node.func)
            if told.get("allow_pickle", "False") != "False" or call.endswith((".read_pickle", "yaml.unsafe_load")):
                found.append(f"{node.lineno}: {ast.unparse(node)}")
            if call == "torch.load" and told.get("weights_only") != "True":
                found.append(f"{node.lineno}: {ast.unparse(node)}")
        found += [f"{node.lineno}: {name}" for name in names if name.partition(".")[0] in UNPICKLE]
        found += [f"{node.lineno}: {name}" for name in names if name in ("torch.load", "numpy.load")]
    return found


def test_no_line_of_the_source_unpickles():
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("benchmarks/*.py")]
    assert len(files) > 100
    assert {str(file.relative_to(ROOT)): found for file in files if (found := loads(file))} == {}


def objects(path):
    with open(path, "wb") as file:
        np.save(file, np.array([Harm()] * 3, dtype=object))


def archive(path):
    with open(path, "wb") as file:
        names = ("indices", "offsets", "test", "class_counts", "spec", "x", "y", "loss", "accuracy", "kind", "about")
        np.savez(file, **dict.fromkeys(names, np.array([Harm()] * 3, dtype=object)))


def tensors(path):
    torch.save({"w": Harm()}, path)


@pytest.fixture
def trained(here):
    """A problem with a finished run in ``run`` and one that was stopped, with its checkpoint, in ``stopped``."""
    write_problem(here)
    Path("run.json").write_text(json.dumps(description("fedsmoo", precision="float32", rounds=2, checkpoint_every=1)))
    assert train("run") == 0
    return here


def train(out):
    return command("train", "--run", "run.json", "--out", out)


def command(name, *words):
    place = ("--dataset", "data", "--partition", "partition.npz")
    return cli.main([name, *words, *place, "--device", "cpu"])


@pytest.mark.parametrize(
    ("file", "write", "call"),
    [
        ("data/images.npy", objects, lambda: train("again")),
        ("data/labels.npy", objects, lambda: train("again")),
        ("partition.npz", archive, lambda: train("again")),
        ("run/model.safetensors", tensors, lambda: command("hessian", "run", "--out", "hessian.json")),
        ("run/model.safetensors", tensors, lambda: command("surface", "run", "--out", "surface.npz")),
    ],
    ids=["images", "labels", "partition", "hessian", "surface"],
)
def test_a_file_with_a_pickle_in_it_is_refused(trained, capsys, file, write, call):
    Path(file).unlink()
    write(file)
    recorded("run")
    assert call() == 2
    said = capsys.readouterr().err
    assert Path(file).parts[0] in said and "cannot be read" in said and "Traceback" not in said


def test_a_checkpoint_with_a_pickle_in_it_is_set_aside(trained, capsys):
    Path("stopped", FOLDER).mkdir(parents=True)
    for name in ("manifest.json", "000001.safetensors"):
        tensors(Path("stopped", FOLDER, name))
    assert train("stopped") == 0
    assert "is set aside" in capsys.readouterr().err
    assert Path("stopped/model.safetensors").read_bytes() == Path("run/model.safetensors").read_bytes()


def test_surfaces_and_deals_that_figures_read(here):
    from flatfed.analysis.landscape import landscape_file
    from flatfed.data import partition

    archive("found.npz")
    for read in (landscape_file.read, partition.load):
        with pytest.raises(DataError, match=r"found\.npz"):
            read("found.npz")


def test_an_order_of_images(here):
    from flatfed.data import order

    with open("order.npz", "wb") as file:
        np.savez(file, **dict.fromkeys(("train", "test", "digest"), np.array([Harm()] * 3, dtype=object)))
    with pytest.raises(DataError, match=r"order\.npz cannot be read as one that studies/order\.py wrote"):
        order.read("order.npz", "source.order")


def test_a_checkpoint_of_weights_from_elsewhere(here, capsys):
    tensors("weights.pth")
    words = ["--name", "vit_b32-imagenet", "--checkpoint", "weights.pth", "--out", "weights.safetensors"]
    assert cli.main(["weights", *words]) == 2
    assert "weights.pth cannot be read as a checkpoint" in capsys.readouterr().err
    assert not Path("weights.safetensors").exists()


def test_an_archive_of_arrays(here):
    with open("data.npz", "wb") as file:
        np.savez(file, **dict.fromkeys(sources.ARRAYS, np.array([Harm()] * 3, dtype=object)))
    spec = {"name": "d", "classes": 2, "shape": [1, 8, 8], "source": {"source": "npz", "path": "data.npz"}}
    with pytest.raises(DataError, match=r"cannot be read as \.npz without pickles"):
        sources.fetch(spec, "out")


@pytest.fixture
def served(here, monkeypatch):
    """Have torchvision's downloads, whatever their address, come from the files of this folder."""
    monkeypatch.setattr(utils, "_get_redirect_url", lambda url, max_hops: url)
    monkeypatch.setattr(utils, "_urlretrieve", lambda url, file: shutil.copy(here / Path(url).name, file))
    return here


def refused(name):
    source = {"source": "torchvision", "dataset": name}
    with pytest.raises(DataError, match=rf"(?s)torchvision could not download {name} .*path: FILE\.npz"):
        sources.fetch({"name": name.lower(), "classes": 10, "shape": [3, 32, 32], "source": source}, "out")
    assert not Path("out").exists()


@pytest.mark.parametrize("name", ["CIFAR10", "CIFAR100"])
def test_an_archive_that_another_sends_is_not_opened(served, monkeypatch, name):
    """CIFAR comes as pickles: torchvision compares the archive's MD5 sum before it unpacks it, ..."""
    kind = getattr(published, name)
    with tarfile.open(kind.filename, "w:gz") as file:
        for entry, _ in [*kind.train_list, *kind.test_list]:
            content = pickle.dumps(Harm())
            member = tarfile.TarInfo(f"{kind.base_folder}/{entry}")
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    monkeypatch.setattr(utils, "extract_archive", lambda *_: pytest.fail("it was unpacked"))
    refused(name)


@pytest.mark.parametrize("name", ["CIFAR10", "CIFAR100"])
def test_a_file_in_it_that_is_another_is_not_unpickled(here, monkeypatch, name):
    """... and that of every file in it before it unpickles one."""
    kind = getattr(published, name)

    def unpacked(self):
        folder = Path(self.root, self.base_folder)
        folder.mkdir(parents=True)
        for entry, _ in [*kind.train_list, *kind.test_list]:
            (folder / entry).write_bytes(pickle.dumps(Harm()))

    monkeypatch.setattr(kind, "download", unpacked)
    refused(name)


@pytest.mark.parametrize("name", ["FashionMNIST", "EMNIST"])
def test_downloads_of_arrays_are_compared_too(served, monkeypatch, name):
    kind = getattr(published, name)
    for file in [Path(url).name for url in (*(file for file, _ in kind.resources), getattr(kind, "url", "none"))]:
        (served / file).write_bytes(bytes(64))
    monkeypatch.setattr(utils, "extract_archive", lambda *_: pytest.fail("it was unpacked"))
    refused(name)


@pytest.mark.parametrize("where", ["downloaded", "downloaded, of the right hash", "in torch's cache"])
def test_weights_that_another_sends_are_refused(here, monkeypatch, capsys, where):
    """torch compares the hash that stands in the file's name, but only of what it downloads."""
    tensors("sent.pth")
    digest = hashlib.sha256(Path("sent.pth").read_bytes()).hexdigest() if "right" in where else 64 * "0"
    file = Path("vit-" + digest[:8] + ".pth")
    cached = here / "torch/hub/checkpoints" / file
    cached.parent.mkdir(parents=True)
    Path("sent.pth").rename(cached if "cache" in where else file)
    weights = type("", (), {"url": (here / file).as_uri(), "get_state_dict": WeightsEnum.get_state_dict})
    monkeypatch.setenv("TORCH_HOME", str(here / "torch"))
    monkeypatch.setattr("torchvision.models.get_weight", lambda name: weights())
    assert cli.main(["weights", "--name", "vit_b32-imagenet", "--out", "weights.safetensors"]) == 2
    said = capsys.readouterr().err
    reason = {"downloaded": "invalid hash value", "in torch's cache": "No such file"}.get(
        where, "Weights only load failed"
    )
    assert reason in said and "could not download" in said and "--checkpoint FILE" in said
    assert not Path("weights.safetensors").exists()
