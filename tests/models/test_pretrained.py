"""Pre-trained weights: from torchvision's checkpoint to a run's first row."""

from __future__ import annotations

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

import made
from flatfed import cli, models, plan
from flatfed.algorithms._layout import Layout
from flatfed.engine.weights import initial_model
from flatfed.errors import ConfigError, DataError
from flatfed.models import pretrained
from flatfed.runs.paths import Paths

SMALL = {"patch": 4, "depth": 2, "width": 12, "heads": 3, "mlp": 20}
NAME = "vit_b32-small"


@pytest.fixture
def theirs(monkeypatch):
    """torchvision's transformer with weights of the test's own, and those weights under a published name."""
    from torchvision.models import VisionTransformer

    monkeypatch.setitem(pretrained.PUBLISHED, NAME, pretrained.Published("vit_b32", "none", (3, 8, 8), 7, SMALL))
    torch.manual_seed(3)
    found = VisionTransformer(8, 4, num_layers=2, num_heads=3, hidden_dim=12, mlp_dim=20, num_classes=7)
    with torch.no_grad():
        found.heads.head.weight.normal_()
    return found.eval()


def built(shape=(3, 8, 8)):
    model = models.build("vit_b32", shape, 7, SMALL)
    return model, models.initial_weights(model, torch.Generator().manual_seed(1))


def old_names(state):
    return {k.replace(".mlp.0.", ".mlp.linear_1.").replace(".mlp.3.", ".mlp.linear_2."): v for k, v in state.items()}


@pytest.mark.parametrize("names", [dict, old_names])
def test_a_checkpoint_becomes_the_first_row(theirs, tmp_path, names):
    torch.save(names(theirs.state_dict()), tmp_path / "in.pth")
    arguments = ["weights", "--name", NAME, "--checkpoint", str(tmp_path / "in.pth"), "--out", str(tmp_path / "out")]
    assert cli.main(arguments) == 0
    model, row = built()
    views = Layout.of(model).views(pretrained.load(model, row, tmp_path / "out"))
    model.load_state_dict(views)
    x = torch.randn(2, 3, 8, 8)
    assert torch.allclose(model(x), theirs(x), atol=1e-5)
    assert {value.dtype for value in load_file(tmp_path / "out").values()} == {torch.float32}


def test_the_head_of_another_number_of_classes_is_drawn_by_the_seed(theirs, tmp_path):
    torch.save(theirs.state_dict(), tmp_path / "in.pth")
    pretrained.make(NAME, tmp_path / "out.safetensors", tmp_path / "in.pth")
    channels = {"mean": [0.5] * 3, "std": [0.25] * 3}
    model = {"name": "vit_b32", "options": SMALL, "weights": NAME}
    config = made.config({"dataset": {"shape": [3, 8, 8], "classes": 4, **channels}, "model": model})
    models_drawn = [initial_model(config.changed(seed=seed), tmp_path / "out.safetensors") for seed in (5, 5, 6)]
    first, again, other = (Layout.of(model).views(row) for model, row in models_drawn)
    for name, value in theirs.state_dict().items():
        assert torch.equal(first[name], again[name])
        if name.startswith("heads."):
            assert len(first[name]) == 4 and first[name].any() and not torch.equal(first[name], other[name])
        else:
            assert torch.equal(first[name], value) and torch.equal(other[name], value)


def test_weights_that_do_not_fit_are_refused_with_the_tensors_name(theirs, tmp_path):
    state, path = theirs.state_dict(), tmp_path / "out.safetensors"
    without = {k: v for k, v in state.items() if k != "encoder.ln.bias"}
    for wrong, message in (
        (without, r'Missing key.*"encoder\.ln\.bias"'),
        ({**state, "encoder.ln.scale": torch.ones(1)}, r'Unexpected key.*"encoder\.ln\.scale"'),
        ({**state, "class_token": torch.ones(1, 1, 13)}, r"class_token: .*\[1, 1, 13\].* is .*\[1, 1, 12\]"),
        ({**state, "heads.head.bias": torch.ones(6)}, r"heads\.head\.bias: .*\[6\]"),
        ([1, 2], "holds list, expected a mapping"),
        (tmp_path, r"in\.pth cannot be read as a checkpoint"),  # an object, which would run code
    ):
        torch.save(wrong, tmp_path / "in.pth")
        with pytest.raises(DataError, match=message):
            pretrained.make(NAME, path, tmp_path / "in.pth")
        assert not path.exists()
    save_file(without, path)
    with pytest.raises(DataError, match=r'Missing key.*"encoder\.ln\.bias"'):
        pretrained.load(*built(), path)
    save_file(state, path)
    with pytest.raises(DataError, match=r"encoder\.pos_embedding: .*\[1, 5, 12\].* is .*\[1, 17, 12\]"):
        pretrained.load(*built(shape=(3, 16, 16)), path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"out\.safetensors: cannot be read as weights"):
        pretrained.load(*built(), path)


WEIGHTS = "preview.model.weights: "


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("{name: vit_b32, options: {patch: 2}, weights: vit_b32-imagenet}", None),
        ("{name: vit_b32, options: {patch: 2}, weights: imagenet}", f"{WEIGHTS}unknown weights 'imagenet'"),
        ("{name: cnn_tiny, weights: vit_b32-imagenet}", f"{WEIGHTS}.* of model 'vit_b32', not of 'cnn_tiny'"),
        ("{name: vit_b32}", "preview.model: vit_b32 takes images whose sides are multiples of patch, 32"),
    ],
)
def test_a_protocol_names_weights_and_its_runs_know_where_they_lie(tmp_path, model, message):
    made.edited(
        tmp_path,
        "protocols/fedsmoo-cifar10.yaml",
        lambda content: content["preview"].update(model=yaml.safe_load(model)),
    )
    if message:
        with pytest.raises(ConfigError, match=message):
            plan.load(tmp_path)
        return
    experiment = plan.load(tmp_path, paths=Paths(resources="elsewhere"))
    preview, paper = (
        experiment.run(scale, "fedsmoo-cifar10", "dir0.6-100", "fedavg", 1) for scale in ("preview", "paper")
    )
    assert preview.config.model.weights == "vit_b32-imagenet" and paper.config.model.weights is None
    assert preview.weights == "elsewhere/weights/vit_b32-imagenet.safetensors"
