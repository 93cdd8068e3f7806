"""Nothing from disk is unpickled without a checksum: by the text of the source, and with files that would do harm."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from flatfed import cli
from flatfed.data import counting, order, sources
from flatfed.errors import DataError
from flatfed.models import pretrained
from flatfed.runs import landscape_file
from harness import description, write_problem
from repository import ROOT

UNPICKLES = r"^ *(import|from) +(_?c?[pP]ickle|cloudpickle|dill|joblib|shelve|marshal)\b"
UNPICKLES += r"|from (torch|numpy) import .*\bload\b|read_pickle|unsafe_load|allow_pickle=(?!False)"


class Harm:
    """What makes a folder called ``harm`` when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("harm",)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not Path("harm").exists(), "a file was unpickled"


def test_no_line_of_the_source_unpickles():
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("benchmarks/*.py")]
    assert len(files) > 100
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert not re.search(UNPICKLES, text, flags=re.M), file
        assert text.count("torch.load(") == len(re.findall(r"torch\.load\(.*weights_only=True", text)), file


OBJECTS = np.array([Harm()] * 3, dtype=object)
ARRAYS = ("indices", "offsets", "test", "class_counts", "spec", "loss", "accuracy", "about", "train", "digest")


def array(path):
    np.save(path, OBJECTS)


def archive(path):
    np.savez(path, **dict.fromkeys((*ARRAYS, *counting.ARRAYS), OBJECTS))


def tensors(path):
    torch.save({"w": Harm()}, path)


def train():
    words = "train --run run.json --out again --dataset data --partition partition.npz --device cpu"
    return cli.main(words.split())


def fetch():
    source = {"source": "npz", "path": "data.npz"}
    sources.fetch({"name": "d", "classes": 2, "shape": [1, 8, 8], "source": source}, "out")


@pytest.mark.parametrize(
    ("file", "write", "read"),
    [
        ("data/images.npy", array, train),
        ("data/labels.npy", array, train),
        ("partition.npz", archive, train),
        ("surface.npz", archive, lambda: landscape_file.read("surface.npz")),
        ("order.npz", archive, lambda: order.read("order.npz", "source.order")),
        ("weights.pth", tensors, lambda: pretrained.load(torch.nn.Linear(1, 1), torch.zeros(2), "weights.pth")),
        ("data.npz", archive, fetch),
    ],
)
def test_a_file_with_a_pickle_in_it_is_refused(here, capsys, file, write, read):
    write_problem(here)
    Path("run.json").write_text(json.dumps(description("fedavg")))
    write(file)
    before = sorted(here.rglob("*"))
    try:
        assert read() == 2
        text = capsys.readouterr().err
    except DataError as refusal:
        text = str(refusal)
    assert Path(file).parts[0] in text and "Traceback" not in text
    assert re.search("cannot be read|not a surface|is object", text)
    assert sorted(here.rglob("*")) == before
