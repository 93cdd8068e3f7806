"""Rows without dead taps: every algorithm gives what it gives on the full rows, and files hold the full model."""

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from flatfed import algorithms, models
from flatfed.algorithms._layout import Layout
from flatfed.engine.speed import taps
from flatfed.engine.speed.live import LiveWeights
from flatfed.runs.record import read_finished
from harness import advanced, description, evaluated, job, lines, needs, simulation
from samples import full, sampled


class Deep(nn.Module):
    """8 x 8 images down to one pixel: most taps of the last two kernels only ever see padding."""

    def __init__(self):
        super().__init__()
        self.dropout = []
        self.conv1 = nn.Conv2d(1, 3, 3, 2, 1)
        self.conv2 = nn.Conv2d(3, 4, 3, (2, 4), 1, bias=False)  # 4 x 4 to 2 x 1
        self.conv3 = nn.Conv2d(4, 4, 3, 2, 1)
        self.conv4 = nn.Conv2d(4, 5, 3, 1, 1)
        self.fc = nn.Linear(5, 3)

    def forward(self, x, masks=None):
        for layer in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = torch.tanh(layer(x))
        return self.fc(x.flatten(1))


@pytest.fixture
def deep(monkeypatch):
    monkeypatch.setattr(models, "build", lambda *_: Deep())


#: Every algorithm as it is, and with each option of public code.
FORMS = [(name, {}) for name in algorithms.names()] + [
    (name, {key: option})
    for name in algorithms.names()
    for key, declared in algorithms.load(name).parameters().items()
    if isinstance(declared, algorithms.Choice)
    for option in declared.public_code
]

#: Dual variables, an adaptive server and masks by place, gossip, an option by place.
SAMPLE = [(name, {}) for name in ("fedsmoo", "fedadam", "dispfl", "dfedsam_mgs")]
SAMPLE += [("fedlesam", {"unpacking": "FL-SAM@2c16149"})]


@pytest.mark.parametrize("executor", sampled(["sequential", "stacked", "products"], ["products"]))
@pytest.mark.parametrize(
    ("name", "params"),
    [pytest.param(*form, marks=[] if form in SAMPLE else full) for form in FORMS],
)
def test_every_algorithm_gives_what_it_gives_on_full_rows(tmp_path, deep, name, params, executor):
    spec = description(name, params, **needs(name), rounds=5, clip_norm=0.05, weight_decay=0.05)
    short, whole = (simulation(tmp_path, spec, executor, full_model=full_model) for full_model in (False, True))
    for line, expected in zip(advanced(short, 5), advanced(whole, 5), strict=True):
        assert line == pytest.approx(expected, rel=1e-11)
    if name in ("fedadam", "dispfl") or "unpacking" in params:  # by place, so on full rows in torch's order
        assert short.layout == whole.layout
    else:
        assert short.layout.tensor_size == whole.layout.size - 12 * 3 - 16 * 7 - 20 * 8
    found, expected = (run.weights.tensors(run.server["w"][0]) for run in (short, whole))
    assert found.keys() == expected.keys()
    assert all((found[tensor] - expected[tensor]).abs().max() < 1e-12 for tensor in found)
    for mine, other in zip(short.server.values(), whole.server.values(), strict=True):
        assert mine.norm().item() == pytest.approx(other.norm().item(), rel=1e-11, abs=1e-14)


class Median(algorithms.load("fedavg")):
    """Coordinate by coordinate; inherits from an algorithm that treats whole rows only."""


class Decayed(Deep):
    """Uses its kernels otherwise."""

    def forward(self, x, masks=None):
        return super().forward(x) + self.conv4.weight.square().sum()


@pytest.mark.parametrize(("kind", "model"), [(Median, Deep), (algorithms.load("fedavg"), Decayed)])
def test_what_needs_all_taps_keeps_them(tmp_path, monkeypatch, kind, model):
    monkeypatch.setattr(models, "build", lambda *_: model())
    assert not isinstance(simulation(tmp_path, description("fedavg"), algorithm=kind()).weights, LiveWeights)


def initial(model: nn.Module) -> torch.Tensor:
    return models.initial_weights(model, torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("stem", "side", "live"), [("imagenet", 32, 4_234_826), ("cifar", 32, None), ("imagenet", 224, None)]
)
def test_resnet_on_small_images(stem, side, live):
    """62 % of the 11,181,642 weights are dead with the 7x7 stem on 32 x 32 images, none otherwise."""
    model = models.build("resnet18_gn", (3, side, side), 10, {"stem": stem, "groups": 2})
    found = taps.live_taps(model, (3, side, side), initial(model))
    assert (found and (found.layout.size, found.full.size)) == (live and (live + 1, 11_181_642))


def test_files_hold_the_full_model(tmp_path, deep):
    out = job(tmp_path, "fedsam", "out")
    shapes = {name: value.shape for name, value in load_file(out / "model.safetensors").items()}
    assert shapes == {name: value.shape for name, value in Deep().named_parameters()}
    assert read_finished(out).parameters == Layout.of(Deep()).size
    again = evaluated(out, tmp_path / "data", tmp_path / "partition.npz")
    assert again["test_loss"] == pytest.approx(float(lines(out)[-1]["test_loss"]), rel=1e-5)


def test_a_convolution_that_sees_nothing_but_padding_stays_whole():
    model = nn.Sequential(nn.Conv2d(1, 1, 1, (1, 3), (0, 4)))  # one pixel wide: no output lies on it
    assert taps.image_sizes(model, (1, 2, 1)) == {"0": (2, 1)}
    assert taps.live_taps(model, (1, 2, 1), initial(model)) is None
