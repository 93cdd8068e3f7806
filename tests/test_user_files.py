"""Models in a user's own files, and the digest of a user's file."""

from __future__ import annotations

import sys

import pytest
import torch

from flatfed import models, plan
from flatfed.engine.weights import initial_model
from flatfed.errors import ConfigError
from flatfed.runs import versions
from flatfed.user_files import syntax_digest
from repository import ROOT

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
    """Return a folder with a model in it; forget the module ``helper`` afterwards."""
    (tmp_path / "perceptron.py").write_text(MODEL)
    yield tmp_path
    sys.modules.pop("helper", None)


def load(folder, model="{name: perceptron, options: {width: 32}}"):
    """Return the experiment whose table trains ``model``."""
    (folder / "mine_T1.yaml").write_text(TABLE.replace("MODEL", model))
    config = {"scale": "paper", "tables": [], "figures": []}
    return plan.load(ROOT, {**config, "folders": [str(folder)]})


def run(folder, *model):
    return load(folder, *model).run("paper", "mine", "dir0.6-100", "fedavg", 1)


def test_a_users_model_is_trained_from_the_weights_that_its_seed_draws(folder):
    exp = load(folder)
    requested = exp.run("paper", "mine", "dir0.6-100", "fedavg", 1)
    assert requested.config.model.as_json() == {"name": "perceptron", "options": {"width": 32}}
    assert exp.environment == dict.fromkeys(("FLATFED_ALGORITHMS", "FLATFED_MODELS"), str(folder))
    before = torch.random.get_rng_state()
    (model, first), (_, again), (_, other) = (initial_model(requested.config.changed(seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert len(first) == 64 * 32 + 32 + 32 * 10 + 10 and model(torch.zeros(3, 1, 8, 8)).shape == (3, 10)


def digest(name):
    """Return the digest of a model in a new process."""
    models.FILES.digests.clear()
    return versions.of_model(name)


def test_the_digest_of_a_models_file_is_its_version(folder):
    """After the number of the rule, without which a run of an earlier FlatFed is stale."""
    of = run(folder).config
    first = versions.of_run(of)
    rule, _, sha256 = first["model"].partition("-")
    assert (rule, sha256) == ("2", syntax_digest([folder / "perceptron.py"]))
    assert "model is version " in versions.changes(of, {**first, "model": sha256})
    (folder / "_unrelated.py").write_text("value = 1\n")
    assert digest("perceptron") == first["model"]
    (folder / "perceptron.py").write_text(MODEL.replace("One hidden layer", "A remark") + "# a comment\n")
    assert digest("perceptron") == first["model"]
    (folder / "perceptron.py").write_text(MODEL.replace("ReLU", "GELU"))
    assert versions.of_run(of) == first, "the digest of the imported code"
    assert digest("perceptron") != first["model"]


#: Line of an import -> a file that it imports, also indirectly. A folder has a name such as that of installed packages.
IMPORTS = {
    "import helper": "own-packages/helper.py",
    "from package.part import value": "own-packages/package/deep.py",
    "import package.part as part": "own-packages/package/__init__.py",
    "from flatfed.models.perceptron import build as base": "perceptron.py",
    "from flatfed.models import _blocks": "_blocks.py",
    "from ._blocks import value": "_blocks.py",
    "from . import _blocks": "_deeper.py",
    "def late():\n    from ._blocks import value\n": "_blocks.py",
}
FILES = {
    "own-packages/helper.py": "value = 1\n",
    "own-packages/package/__init__.py": "",
    "own-packages/package/part.py": "from .deep import value\n",
    "own-packages/package/deep.py": "value = 1\n",
    "_blocks.py": "import math, numpy\nfrom ._deeper import value\n",
    "_deeper.py": "value = 1\n",
}


@pytest.mark.parametrize("line", IMPORTS)
def test_all_files_that_a_file_imports_count(folder, monkeypatch, line):
    (folder / "own-packages/package").mkdir(parents=True)
    for name, text in {**FILES, "wide.py": f"{MODEL}\n{line}\n"}.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(folder / "own-packages")
    models.FILES.look_in([folder], "a test")
    before = digest("wide")
    with (folder / IMPORTS[line]).open("a") as file:
        file.write("more = 2\n")
    after = digest("wide")
    assert after != before
    (folder / "_cosine.py").write_text("value = 1\n")
    assert digest("wide") == after


def test_a_wrong_option_is_named_with_file_and_key(folder):
    message = rf"^{folder}/mine_T1\.yaml: protocols\.mine\.model.*: width: 0 must be at least 1"
    with pytest.raises(ConfigError, match=message):
        run(folder, "{name: perceptron, options: {width: 0}}")


ALGORITHM = "from flatfed.algorithms.fedavg import FedAvg\nclass Perceptron(FedAvg): ..."


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
        (MODEL, ALGORITHM, "it has an algorithm: put it into a file of its own"),
    ],
)
def test_a_wrong_file_is_refused_before_any_job(folder, old, new, words):
    (folder / "perceptron.py").write_text(new.join(MODEL.rsplit(old, 1)))
    with pytest.raises(ConfigError) as caught:
        run(folder)
    assert f"{folder}/perceptron.py" in str(caught.value) and words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["cnn", "resnet50", "pretrained"])
def test_a_file_with_the_name_of_a_module_of_flatfed_is_refused(folder, name):
    (folder / f"{name}.py").write_text(MODEL)
    with pytest.raises(ConfigError, match=rf"{name}.py: flatfed.models has '{name}' already"):
        models.FILES.look_in([folder], "a test")
