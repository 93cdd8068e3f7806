"""Models of a user's own files, torchvision's, and the digest of a user's file."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from flatfed import algorithms, models, plan
from flatfed.commands import describe
from flatfed.engine import versions
from flatfed.engine.weights import initial_model
from flatfed.errors import ConfigError
from flatfed.plan import run_specs
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
def folder(tmp_path, monkeypatch):
    """Return a folder with a model in it; forget what was imported from it."""
    for package in (algorithms, models):
        monkeypatch.setattr(package, "__path__", list(package.__path__))
    before = set(sys.modules)
    (tmp_path / "perceptron.py").write_text(MODEL)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(("flatfed.algorithms.", "flatfed.models.")) or name == "helper":
            parent, _, last = name.rpartition(".")
            sys.modules.pop(name)
            vars(sys.modules.get(parent, sys)).pop(last, None)


def load(folder, model="{name: perceptron, options: {width: 32}}"):
    """Return the experiment whose table trains ``model``."""
    (folder / "mine_T1.yaml").write_text(TABLE.replace("MODEL", model))
    config = {"scale": "paper", "tables": [], "figures": []}
    return plan.load(ROOT, {**config, "model_folders": [str(folder)], "table_folders": [str(folder)]})


def run(folder, *model):
    return run_specs.run(load(folder, *model), "paper", "mine", "dir0.6-100", "fedavg", 1)


def test_a_users_model_is_trained_from_the_weights_that_its_seed_draws(folder):
    config = run(folder).config
    assert config.model.as_json() == {"name": "perceptron", "options": {"width": 32}}
    before = torch.random.get_rng_state()
    (model, first), (_, again), (_, other) = (initial_model(config.changed(seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert len(first) == 64 * 32 + 32 + 32 * 10 + 10 and model(torch.zeros(3, 1, 8, 8)).shape == (3, 10)


def digest(name):
    """Return the digest of a model in a new process."""
    models.FILES.digests.clear()
    return versions.of_model(name)


def test_the_digest_of_a_models_file_is_its_version(folder):
    of = run(folder).config
    first = versions.of_run(of)
    (folder / "perceptron.py").write_text(MODEL.replace("One hidden layer", "A remark") + "# a comment\n")
    (folder / "_unrelated.py").write_text("not Python at all")
    (folder / "other.py").write_text(MODEL)
    assert digest("perceptron") == first["model"] and len(first["model"]) == 64
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


@pytest.mark.parametrize("line", IMPORTS)
def test_all_files_that_a_file_imports_count(folder, monkeypatch, line):
    (folder / "own-packages/package").mkdir(parents=True)
    (folder / "own-packages/helper.py").write_text("value = 1\n")
    (folder / "own-packages/package/__init__.py").write_text("")
    (folder / "own-packages/package/part.py").write_text("from .deep import value\n")
    (folder / "own-packages/package/deep.py").write_text("value = 1\n")
    (folder / "_blocks.py").write_text("import math, numpy\nfrom ._deeper import value\n")
    (folder / "_deeper.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(folder / "own-packages")
    (folder / "wide.py").write_text(f"{MODEL}\n{line}\n")
    load(folder)
    before = digest("wide")
    file = folder / IMPORTS[line]
    file.write_text(file.read_text() + "more = 2\n")
    after = digest("wide")
    assert after != before
    (folder / "_cosine.py").write_text("value = 1\n")
    assert digest("wide") == after


def test_a_run_with_a_digest_of_72abba8b_is_not_stale(folder):
    """Its digest covers all ``_*.py`` of the folder."""
    of = run(folder).config
    now = versions.of_run(of)
    assert models.FILES.earlier_digest("perceptron") == now["model"], "equal without other files"
    (folder / "_unrelated.py").write_text("value = 1\n")
    recorded = {**now, "model": models.FILES.earlier_digest("perceptron")}
    assert recorded != now == versions.of_run(of) and versions.of_run(of, [recorded]) == recorded
    assert versions.changes(of, recorded) == ""
    (folder / "_unrelated.py").write_text("value = 2\n")
    assert versions.of_run(of, [recorded]) == now and "model is version " in versions.changes(of, recorded)


def test_a_model_folder_makes_no_other_run_stale(folder):
    ids = ("preview", "fedsmoo-cifar10", "dir0.6-100", "fedsmoo", 1)
    plain, more = run_specs.run(plan.load(ROOT), *ids), run_specs.run(load(folder), *ids)
    assert versions.of_run(more.config) == dict.fromkeys(("engine", "algorithm", "model", "partition"), 1)
    assert more == plain


def test_folders_reach_jobs_and_scripts(folder):
    exp = load(folder)
    assert exp.environment == {"FLATFED_MODELS": str(folder)}
    lines = describe.script(exp, [run(folder)])
    assert f"export FLATFED_MODELS={folder} # copy these, too" in lines and "FLATFED_ALGORITHMS" not in "".join(lines)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("{name: percptron}", ["unknown model 'percptron'; did you mean 'perceptron'?", "`model_folders`"]),
        ("{name: perceptron, options: {widht: 3}}", ["unknown option 'widht'; did you mean 'width'? known: width"]),
        ("{name: perceptron, options: {width: 0}}", ["perceptron: width: 0 must be at least 1"]),
        ("{name: resnet50, options: {groups: 3}}", ["resnet50: groups: unknown value 3", "1, 16, 2, 32"]),
        ("{name: mobilenet_v2}", ["unknown model 'mobilenet_v2'", "`model_folders`"]),
    ],
)
def test_a_wrong_model_is_named_with_file_key_and_nearest(folder, model, words):
    with pytest.raises(ConfigError) as caught:
        run(folder, model)
    assert str(caught.value).startswith(f"{folder}/mine_T1.yaml: protocols.mine.")
    for word in (*words, "model"):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("def build", "def make", "defines no function build(shape, classes, ...)"),
        ('Whole(64, "hidden units", minimum=1)', "64", "option 'width' is not declared; expected a Number, Choice or"),
        ("return nn", "nn", "build returns a NoneType, not a torch.nn.Module"),
        ("nn.ReLU()", "nn.BatchNorm1d(width)", "layer '2' (BatchNorm1d) keeps buffers"),
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


def test_an_algorithm_in_a_folder_of_models_is_named(folder):
    (folder / "perceptron.py").write_text("from flatfed.algorithms.fedavg import FedAvg\nclass Perceptron(FedAvg): ...")
    with pytest.raises(ConfigError, match=r"perceptron.py: defines no function build.* `algorithm_folders`"):
        run(folder)


@pytest.mark.parametrize("name", ["cnn", "resnet50", "pretrained"])
def test_a_file_with_the_name_of_a_module_of_flatfed_is_refused(folder, name):
    (folder / f"{name}.py").write_text(MODEL)
    with pytest.raises(ConfigError, match=rf"{name}.py: flatfed.models has '{name}' already"):
        load(folder)


def test_torchvisions_resnets_are_its_own_with_group_norm():
    from torchvision.models import resnet34

    torch.manual_seed(0)
    theirs = resnet34(num_classes=10, norm_layer=lambda channels: nn.GroupNorm(4, channels))
    torch.manual_seed(0)
    ours = models.build("resnet34", (3, 32, 32), 10, {"groups": 4})
    row = models.initial_weights(ours, torch.Generator())
    assert torch.equal(row, torch.cat([parameter.detach().reshape(-1) for parameter in theirs.parameters()]))


@pytest.mark.parametrize("name", models.TORCHVISION)
def test_every_resnet_takes_any_channels_classes_and_small_images(name):
    with torch.device("meta"):
        model = models.build(name, (1, 8, 8), 7, {"groups": 64})
        assert model(torch.zeros(2, 1, 8, 8)).shape == (2, 7)
    models.refuse_layers(model)


def test_a_file_that_needs_nothing_else_is_loaded_in_silence(folder, capsys):
    run(folder)
    assert capsys.readouterr().err == ""
