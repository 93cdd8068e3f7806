"""Rows without dead taps: every algorithm gives what it gives on the full rows, and files hold the full model."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from flatfed import algorithms, models
from flatfed.algorithms._layout import Layout
from flatfed.engine.job.train import train
from flatfed.engine.speed import taps
from flatfed.engine.speed.live import LiveWeights
from flatfed.runs.run_config import RunConfig
from harness import description, evaluated, needs, simulation, sizes, write_problem
from samples import sampled


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


#: Every algorithm as it is, and with each option that is what some public code does.
FORMS = [(name, {}) for name in algorithms.names()] + [
    (name, {key: option})
    for name in algorithms.names()
    for key, declared in algorithms.load(name).parameters().items()
    if isinstance(declared, algorithms.Choice)
    for option in declared.public_code
]


def both(folder, name, rounds, executor, params=None, **changes):
    """Return the simulations with and without the pass, after ``rounds`` rounds, and their lines of metrics."""
    changes = {**needs(name), "rounds": 5, "clip_norm": 0.05, "weight_decay": 0.05, **changes}
    spec = description(name, params or {}, **changes)
    short = simulation(folder, spec, executor)
    full = simulation(folder, spec, executor, full_model=True)
    return short, full, [[run.advance() for _ in range(rounds)] for run in (short, full)]


@pytest.mark.parametrize("executor", sampled(["sequential", "stacked", "products"], ["sequential", "products"]))
@pytest.mark.parametrize(("name", "params"), FORMS)
def test_every_algorithm_gives_what_it_gives_on_full_rows(tmp_path, deep, name, params, executor):
    write_problem(tmp_path, sizes(name))
    short, full, (lines, others) = both(tmp_path, name, 5, executor, params)
    if name in ("fedadam", "dispfl") or "unpacking" in params:  # by place, so on full rows in torch's order
        assert short.layout == full.layout
    else:
        assert short.layout.tensor_size == full.layout.size - 12 * 3 - 16 * 7 - 20 * 8
    found, expected = short.weights.tensors(short.server["w"][0]), full.weights.tensors(full.server["w"][0])
    assert found.keys() == expected.keys()
    for tensor in found:
        assert (found[tensor] - expected[tensor]).abs().max() < 1e-12, tensor
    for line, other in zip(lines, others, strict=True):
        for key in line.keys() - {"seconds"}:
            assert line[key] == pytest.approx(other[key], rel=1e-11), key
    for mine, own in zip(short.server.values(), full.server.values(), strict=True):
        assert mine.norm().item() == pytest.approx(own.norm().item(), rel=1e-11, abs=1e-14)


def test_dead_weights_move(tmp_path, deep):
    """Weight decay and duals do act on them: the extra coordinate is not a constant."""
    short, _, _ = both(tmp_path, "fedsmoo", 3, "stacked")
    assert abs(short.server["w"][0, -1] / short.weights.initial[-1] - 1) > 1e-3


def test_an_algorithm_that_does_not_say_so_keeps_all_taps(tmp_path, deep):
    class Median(algorithms.load("fedavg")):
        """Coordinate by coordinate; inherits from an algorithm that treats whole rows only."""

    assert not isinstance(simulation(tmp_path, description("fedavg"), algorithm=Median()).weights, LiveWeights)


def test_a_model_that_uses_its_kernels_otherwise_is_left_alone(tmp_path, monkeypatch):
    class Decayed(Deep):
        def forward(self, x, masks=None):
            return super().forward(x) + self.conv4.weight.square().sum()

    monkeypatch.setattr(models, "build", lambda *_: Decayed())
    assert not isinstance(simulation(tmp_path, description("fedavg")).weights, LiveWeights)


def test_rows_go_there_and_back():
    model = Deep()
    row = models.initial_weights(model, torch.Generator().manual_seed(1))
    found = taps.live_taps(model, (1, 8, 8), row)
    assert torch.equal(found.expand(found.reduce(row)), row)
    scaled = found.expand(2 * found.reduce(row.double()))
    assert (scaled - 2 * row).abs().max() < 1e-12
    assert found.reduce(row.double()).norm().item() == pytest.approx(row.double().norm().item(), rel=1e-12)


@pytest.mark.parametrize(
    ("stem", "side", "live"), [("imagenet", 32, 4_234_826), ("cifar", 32, None), ("imagenet", 224, None)]
)
def test_resnet_on_small_images(stem, side, live):
    """62 % of the 11,181,642 weights are dead with the 7x7 stem on 32 x 32 images, none otherwise."""
    model = models.build("resnet18_gn", (3, side, side), 10, {"stem": stem, "groups": 2})
    found = taps.live_taps(model, (3, side, side), models.initial_weights(model, torch.Generator().manual_seed(1)))
    assert (found is None) == (live is None)
    if live:
        assert found.layout.size == live + 1 and found.full.size == 11_181_642


def test_files_hold_the_full_model(tmp_path, deep):
    write_problem(tmp_path)
    spec = description("fedsam", precision="float32")
    places = tmp_path / "data", tmp_path / "partition.npz"
    train(RunConfig(**spec), *places, tmp_path / "out", device="cpu")
    weights = load_file(tmp_path / "out/model.safetensors")
    assert {name: tuple(value.shape) for name, value in weights.items()} == {
        name: tuple(value.shape) for name, value in Deep().named_parameters()
    }
    record = json.loads((tmp_path / "out/run.json").read_text())
    assert record["parameters"] == Layout.of(Deep()).size
    again = evaluated(tmp_path / "out", *places)
    last = (tmp_path / "out/metrics.csv").read_text().splitlines()[-1].split(",")
    assert again["test_loss"] == pytest.approx(float(last[3]), rel=1e-5)


def test_a_convolution_that_sees_nothing_but_padding_stays_whole():
    model = nn.Sequential(nn.Conv2d(1, 1, 1, (1, 3), (0, 4)))  # one pixel wide: no output lies on it
    assert taps.image_sizes(model, (1, 2, 1)) == {"0": (2, 1)}
    assert taps.cropped(model, (1, 2, 1)) is None
