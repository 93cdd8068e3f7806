"""Pre-trained weights: from torchvision's checkpoint to a run's first row."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torchvision.models import ViT_B_32_Weights

import made
from flatfed import cli, models, plan
from flatfed.algorithms._layout import Layout
from flatfed.commands.jobs import Jobs
from flatfed.engine.weights import initial_model
from flatfed.errors import ConfigError, DataError
from flatfed.models import pretrained
from flatfed.runs.paths import Paths

SMALL = {"patch": 4, "depth": 2, "width": 12, "heads": 3, "mlp": 20}


@pytest.fixture
def theirs():
    """torchvision's transformer with weights of the test's own."""
    from torchvision.models import VisionTransformer

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
    state = {name: value.half().double() for name, value in theirs.state_dict().items()}
    theirs.load_state_dict(state)
    torch.save(names(state), tmp_path / "in.pth")
    model, row = built()
    loaded = pretrained.load(model, row, tmp_path / "in.pth")
    assert loaded.dtype == torch.float32
    model.load_state_dict(Layout.of(model).views(loaded))
    x = torch.randn(2, 3, 8, 8)
    assert torch.allclose(model(x), theirs(x), atol=1e-5)


def test_the_head_of_another_number_of_classes_is_drawn_by_the_seed(theirs, tmp_path):
    torch.save(theirs.state_dict(), tmp_path / "in.pth")
    channels = {"mean": [0.5] * 3, "std": [0.25] * 3}
    model = {"name": "vit_b32", "options": SMALL, "weights": "small"}
    config = made.config({"dataset": {"shape": [3, 8, 8], "classes": 4, **channels}, "model": model})
    models_drawn = [initial_model(config.changed(seed=seed), tmp_path / "in.pth") for seed in (5, 5, 6)]
    first, again, other = (Layout.of(model).views(row) for model, row in models_drawn)
    for name, value in theirs.state_dict().items():
        assert torch.equal(first[name], again[name])
        if name.startswith("heads."):
            assert len(first[name]) == 4 and first[name].any() and not torch.equal(first[name], other[name])
        else:
            assert torch.equal(first[name], value) and torch.equal(other[name], value)


class Frozen(torch.nn.Module):
    """A model with frozen features and statistics, whose last layer has another number of classes."""

    head = "last"

    def __init__(self, classes):
        super().__init__()
        self.features = torch.nn.Linear(4, 3).requires_grad_(False)
        self.norm = torch.nn.BatchNorm1d(3)
        self.last = torch.nn.Linear(3, classes)


def test_frozen_layers_and_statistics_get_their_weights_and_are_no_part_of_the_row(tmp_path):
    theirs, ours = Frozen(9), Frozen(2)
    theirs.norm.running_mean += 5
    torch.save(theirs.state_dict(), tmp_path / "in.pth")
    row = torch.arange(3.0 + 3 + 6 + 2)
    loaded = pretrained.load(ours, row, tmp_path / "in.pth")
    assert torch.equal(loaded, torch.cat([torch.ones(3), torch.zeros(3), row[6:]])), "the head keeps its values"
    assert torch.equal(ours.features.weight, theirs.features.weight) and (ours.norm.running_mean == 5).all()


def test_weights_that_do_not_fit_are_refused_with_the_tensors_name(theirs, tmp_path):
    state, path = theirs.state_dict(), tmp_path / "in.pth"
    for wrong, message in (
        ({k: v for k, v in state.items() if k != "encoder.ln.bias"}, r'Missing key.*"encoder\.ln\.bias"'),
        ({**state, "encoder.ln.scale": torch.ones(1)}, r'Unexpected key.*"encoder\.ln\.scale"'),
        ({**state, "class_token": torch.ones(1, 1, 13)}, r"class_token: .*\[1, 1, 13\].* is .*\[1, 1, 12\]"),
        ([1, 2], "holds list, expected a mapping"),
        (tmp_path, r"in\.pth: cannot be read as weights"),  # an object, which would run code
    ):
        torch.save(wrong, path)
        with pytest.raises(DataError, match=message):
            pretrained.load(*built(), path)
    torch.save(state, path)
    with pytest.raises(DataError, match=r"encoder\.pos_embedding: .*\[1, 5, 12\].* is .*\[1, 17, 12\]"):
        pretrained.load(*built(shape=(3, 16, 16)), path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"in\.pth: cannot be read as weights"):
        pretrained.load(*built(), path)


def test_published_weights_are_the_published_file(tmp_path):
    """torchvision's file names begin with the SHA-256; a name of the user's own takes any file."""
    start, text = pretrained.PUBLISHED["vit_b32-imagenet"]
    assert ViT_B_32_Weights.IMAGENET1K_V1.url.endswith(f"-{start}.pth") and start in text
    file = tmp_path / "other.pth"
    with pytest.raises(DataError, match=rf"there is no file .*other.pth; .* torchvision's vit_b_32-{start}.pth"):
        pretrained.digest("vit_b32-imagenet", file)
    file.write_bytes(b"other")
    with pytest.raises(DataError, match=rf"is not that of vit_b_32-{start}.pth .*; other weights need another name"):
        pretrained.digest("vit_b32-imagenet", file)
    assert len(pretrained.digest("mine", file)) == 64


def test_check_says_which_file_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asked = ["check", "--config", "scale=paper", "tables=[fedlesam2024_T3]"]
    text = "warning: weights 'vit_b32-imagenet': there is no file resources/weights/vit_b32-imagenet.pth; it should be"
    file = Path("resources/weights/vit_b32-imagenet.pth")
    for expected in (1, 0):
        assert cli.main(asked) == 0
        assert capsys.readouterr().out.count(text) == expected
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def test_a_protocol_names_weights_and_its_runs_know_where_they_lie(tmp_path):
    """A missing file fails the training, which says what to do, and not the plan."""

    def loaded(weights):
        model = {"name": "vit_b32", "options": {"patch": 2}, "weights": weights}
        made.edited(tmp_path, "protocols/fedsmoo-cifar10.yaml", lambda content: content["preview"].update(model=model))
        return plan.load(tmp_path, paths=Paths(resources=str(tmp_path)))

    experiment, ids = loaded("mine"), ("fedsmoo-cifar10", "dir0.6-100", "fedavg")
    preview, paper = (experiment.run(scale, *ids, 1) for scale in ("preview", "paper"))
    assert preview.config.model.weights == "mine" and paper.config.model.weights is None
    file = tmp_path / "weights/mine.pth"
    assert preview.weights == str(file)
    wildcards = {"scale": "preview", **dict(zip(("protocol", "split", "algorithm"), ids, strict=True)), "seed": "1"}
    assert Jobs(experiment).run_weights(**wildcards) == []
    file.parent.mkdir()
    file.touch()
    assert Jobs(experiment).run_weights(**wildcards) == [str(file)]
    with pytest.raises(ConfigError, match=r'preview\.model\.weights: "\.\./mine" is not allowed'):
        loaded("../mine")
