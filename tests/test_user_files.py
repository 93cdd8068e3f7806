"""Models in a user's own files, and the digest of a user's file."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest
import torch

from flatfed import models, plan
from flatfed.commands import configuration
from flatfed.errors import ConfigError
from flatfed.runs import versions

MODEL = '''"""One hidden layer."""

from math import prod

from torch import nn

from flatfed.models import Whole


def build(shape, classes, width=Whole(64, "hidden units", minimum=1)):
    """Return the module."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), width), nn.ReLU(), nn.Linear(width, classes))
'''

TABLE = """
title: A model of my own
rows: [fedavg]
columns: [{protocol: mine, splits: [dir0.6-100]}]
protocols:
  mine: {dataset: digits, model: MODEL, rounds: 3, preview: {dataset: digits, clients_times: 0.1,
    participation_times: 1, rounds: 2}}
"""


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a model in it."""
    (tmp_path / "perceptron.py").write_text(MODEL)
    return tmp_path


@pytest.fixture(autouse=True)
def few_tables(monkeypatch, small_config):
    monkeypatch.setattr(configuration, "HOME", small_config)


def load(folder, model="{name: perceptron, options: {width: 32}}"):
    """Return the experiment whose table trains ``model``."""
    (folder / "mine_T1.yaml").write_text(TABLE.replace("MODEL", model))
    config = {"scale": "paper", "tables": [], "figures": []}
    return plan.load(configuration.HOME, {**config, "folders": [str(folder)]})


def run(folder, *model):
    return load(folder, *model).run("paper", "mine", "dir0.6-100", "fedavg", 1)


def digest(name):
    """Return the digest of a model in a new process."""
    models.FILES.imports.clear()
    return versions.of_model(name)


def test_the_digest_of_a_models_file_is_its_version(folder):
    """After the number of the rule, without which a run of an earlier FlatFed is stale."""
    of = run(folder).config
    first = versions.of_run(of)
    rule, _, sha256 = first["model"].partition("-")
    assert rule == "3" and "model is version " in versions.changes(of, {**first, "model": sha256})
    (folder / "_unrelated.py").write_text("value = 1\n")
    assert digest("perceptron") == first["model"]
    (folder / "perceptron.py").write_text(MODEL.replace("One hidden layer", "A remark") + "# a comment\n")
    assert digest("perceptron") == first["model"]
    (folder / "perceptron.py").write_text(MODEL.replace("ReLU", "GELU"))
    assert versions.of_run(of) == first, "the digest of the imported code"
    assert digest("perceptron") != first["model"]


#: Line of an import -> the files that it loads.
IMPORTS = {
    "import importlib; value = importlib.import_module('helper').value": ["own-packages/helper.py"],
    "import sys; sys.path.insert(0, HIDDEN); import hidden": ["hidden/hidden.py"],
    "import package.part as part": [f"own-packages/package/{name}.py" for name in ("__init__", "deep", "part")],
    "from namespace import part": ["own-packages/namespace/part.py"],
    "from flatfed.models.perceptron import build as base": ["perceptron.py"],
    "from flatfed.models import _blocks": ["_blocks.py", "_deeper.py"],
    "import torch, numpy, json": [],
}
FILES = {
    "own-packages/helper.py": "value = 1\n",
    "own-packages/package/__init__.py": "",
    "own-packages/package/part.py": "from .deep import value\n",
    "own-packages/package/deep.py": "value = 1\n",
    "own-packages/namespace/part.py": "value = 1\n",
    "hidden/hidden.py": "value = 1\n",
    "_blocks.py": "import math, numpy\nfrom ._deeper import value\n",
    "_deeper.py": "value = 1\n",
}


@pytest.mark.parametrize("line", IMPORTS)
def test_all_files_that_an_import_loads_count(folder, monkeypatch, line):
    """Also in the second of two files with the same import. A folder has a name such as that of installed packages."""
    text = f"{MODEL}\n{line.replace('HIDDEN', repr(str(folder / 'hidden')))}\n"
    for name, content in {**FILES, "perceptron.py": MODEL, "wide.py": text, "wider.py": text}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    monkeypatch.syspath_prepend(folder / "own-packages")
    models.FILES.look_in([folder], "a test")
    for name in ("wider", "wide"):
        expected = {folder / path for path in (f"{name}.py", *IMPORTS[line])}
        assert sorted(models.FILES.imported(name).files) == sorted(expected)
    before = versions.of_model("wide")
    assert digest("wide") == before
    for path in IMPORTS[line]:
        with (folder / path).open("a") as file:
            file.write("more = 2\n")
        after = digest("wide")
        assert after != before
        before = after


def test_an_import_keeps_the_modules_of_others(folder, monkeypatch):
    """A module that is loaded already is loaded once more, for the digest, and stays the one that others use."""
    monkeypatch.syspath_prepend(folder)
    (folder / "space").mkdir()
    (folder / "space/part.py").write_text("value = 1\n")
    (folder / "perceptron.py").write_text(f"{MODEL}\nfrom space import part\n")
    part = importlib.import_module("space.part")
    models.FILES.look_in([folder], "a test")
    own = models.FILES.imported("perceptron")
    assert own.module.part is not part and sys.modules["space.part"] is part is sys.modules["space"].part
    assert torch is sys.modules["torch"] and models is sys.modules["flatfed.models"]


def test_a_wrong_option_is_named_with_file_and_key(folder):
    message = rf"^{folder}/mine_T1\.yaml: protocols\.mine\.model.*: width: 0 must be at least 1"
    with pytest.raises(ConfigError, match=message):
        run(folder, "{name: perceptron, options: {width: 0}}")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("def build", "def make", "defines no function build(shape, classes, ...)"),
        ('Whole(64, "hidden units", minimum=1)', "64", "option 'width' is not declared; expected a Number, Choice or"),
        ("return nn", "nn", "build returns a NoneType, not a torch.nn.Module"),
        ("nn.ReLU()", "nn.Dropout(0.1)", "layer '2' (Dropout) draws from torch's own generator"),
        ("prod(shape)", "17", "for images (1, 8, 8) and 10 classes: RuntimeError: "),
        ("width, classes", "width, 7", "its output for 2 images has shape (2, 7), not (2, 10)"),
        ("from math", "from maths", "this model cannot be imported: ModuleNotFoundError: No module named 'maths'"),
    ],
)
def test_a_wrong_file_is_refused_before_any_job(folder, old, new, words):
    (folder / "perceptron.py").write_text(new.join(MODEL.rsplit(old, 1)))
    with pytest.raises(ConfigError) as caught:
        run(folder)
    assert f"{folder}/perceptron.py" in str(caught.value) and words in str(caught.value)
    assert "\n" not in str(caught.value)


FEDAVG = "from flatfed.algorithms.fedavg import FedAvg\n"
#: A user's file -> its text and the message after the file's name.
BROKEN = {
    "fedx.py": (f"{FEDAVG}class FedX(FedAvg):\n    def x(self:\n", "SyntaxError: .*fedx.py, line 3.; correct this"),
    "null.py": (f"{FEDAVG}\0", "(SyntaxError|ValueError): source code .* null bytes.*; correct this"),
    "fedexit.py": (
        f"import sys\n{FEDAVG}class FedExit(FedAvg): ...\n\nsys.exit(0)\n",
        'line 5: this algorithm cannot be imported: SystemExit: 0; move this call under `if __name__ == "__main__":`',
    ),
    "fedname.py": (
        f"{FEDAVG}class FedName(FedAvg):\n    x = y\n",
        "line 3: this algorithm cannot be imported: NameError: name 'y' is not defined",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_named_although_nothing_uses_it(folder, call, name):
    text, message = BROKEN[name]
    (folder / name).write_text(text)
    status, _, error = call("check", "--config", f"folders=[{folder}]")
    assert status == 2 and re.match(rf"flatfed check: {folder}/{name}: {message}", error)


#: A user's file that is no algorithm -> its text.
OTHERS = {
    "test_fedx.py": "import unittest\n\nclass TestFedX(unittest.TestCase): ...\n",
    "test_model.py": "class TestModel:\n    def test_it(self): ...\n",
    "layer.py": "from torch import nn\n\nclass Layer(nn.Module): ...\n",
    "script.py": "import sys\n\nclass Main(FedAvg): ...\n\nsys.exit(0)\n",
    "_notes.py": "def (:\n",
    "fedslip.py": f"{FEDAVG}class FedSlipp(FedAvg): ...\n",
}


def test_a_row_that_is_a_model_is_told_why(folder):
    (folder / "mine.py").write_text(f"{FEDAVG}class Mine(FedAvg): ...\n\n\ndef build(parts): ...\n")
    (folder / "mine_T1.yaml").write_text(TABLE.replace("MODEL", "{name: perceptron}").replace("[fedavg]", "[mine]"))
    with pytest.raises(ConfigError, match=r"rows\[0\]: .*mine\.py has a function `build`, so it is a model"):
        plan.load(configuration.HOME, {"scale": "paper", "tables": [], "figures": [], "folders": [str(folder)]})


def test_other_files_are_ignored_unless_a_table_names_them(folder):
    for name, text in OTHERS.items():
        (folder / name).write_text(text)
    experiment = load(folder)
    assert {Path(name).stem for name in OTHERS}.isdisjoint({*experiment.catalog.algorithms, *models.names()})
    for row, message in {
        "fedslip": "fedslip.py: defines no subclass of flatfed.algorithms.Algorithm called 'fedslip'",
        "test_fedx": "test_fedx.py: defines no subclass of ",
        "script": "script.py: line 3: this algorithm cannot be imported: NameError: name 'FedAvg'",
        "perceptron": "perceptron.py: .*; its function `build` is that of a model",
    }.items():
        table = f"title: Another\nrows: [{row}]\ncolumns: [{{protocol: mine, splits: [dir0.6-100]}}]\n"
        (folder / "other_T1.yaml").write_text(table)
        with pytest.raises(ConfigError, match=message):
            load(folder)
