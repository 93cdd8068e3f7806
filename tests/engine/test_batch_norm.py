"""Models with BatchNorm: statistics of clients, server and neighbours, against plain PyTorch."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch._C._functorch import get_unwrapped
from torch.nn.functional import cross_entropy

from flatfed import models
from flatfed.algorithms.dfedavg import DFedAvg
from flatfed.algorithms.fedavg import FedAvg
from flatfed.engine.executors import Batch
from flatfed.engine.probe import drift, measure, sharpness
from flatfed.engine.topology import Topology
from flatfed.engine.weights import initial_model
from flatfed.errors import ConfigError
from flatfed.models.batch_norm import UnpaddedBatchNorm
from flatfed.runs.run_config import TopologySettings
from harness import (
    Reference,
    advanced,
    assert_same,
    description,
    interrupted_job,
    job,
    needs,
    simulation,
)
from plain import Plain, mean

FILE = """
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3), LAYER
        self.inner, self.last, self.head = nn.Linear(144, 5), LAST, nn.Linear(5, 3)

    def forward(self, x, masks=None):
        x = self.norm(self.conv(x)).tanh().flatten(1)
        return self.head(self.last(self.inner(x)).tanh())


def build(shape, classes):
    return Net()
"""
LAYERS = {
    "plain": "nn.BatchNorm2d(4)",
    "cumulative": "nn.BatchNorm2d(4, momentum=None)",
    "bare": "nn.BatchNorm2d(4, affine=False)",
    "untracked": "nn.BatchNorm2d(4, track_running_stats=False)",
    "lazy": "nn.LazyBatchNorm2d()",
    "deep": "nn.Sequential(nn.Unflatten(1, (4, 1)), nn.BatchNorm3d(4), nn.Flatten(1, 2))",
    "frozen": "nn.BatchNorm2d(4).requires_grad_(False)",
    "two_names": "(lambda layer: nn.Sequential(layer, nn.Tanh(), layer))(nn.BatchNorm2d(4))",
    "without_bias": "(lambda layer: setattr(layer, 'bias', None) or layer)(nn.BatchNorm2d(4))",
}
FIRST_ALONE = {"batch_norm_second_pass": False}
CASES = [(name, "fedavg", {}) for name in LAYERS] + [
    *(("plain", "fedsam", changes) for changes in ({}, FIRST_ALONE)),
    ("cumulative", "fedsam", FIRST_ALONE),
]


@pytest.fixture
def normed(tmp_path_factory, monkeypatch):
    """Return a function that writes a model with a layer of ``LAYERS`` and returns the setting ``model`` of a run."""
    folder = tmp_path_factory.mktemp("models")
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(folder)])

    def write(name, layer=None, last="nn.BatchNorm1d(5)"):
        (folder / f"{name}.py").write_text(FILE.replace("LAYER", layer or LAYERS[name]).replace("LAST", last))
        # Batches of 2 to 7 images: those of 1 have one value per channel in the last layer.
        return {"model": {"name": name, "options": {}}, "batch_size": 7}

    return write


def assert_close(found, expected, limit):
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert (found[key] - value).abs().max() <= limit, key


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
@pytest.mark.parametrize(("name", "algorithm", "changes"), CASES)
def test_statistics_are_those_of_plain_pytorch(tmp_path, normed, name, algorithm, changes, executor):
    spec = description(algorithm, {"rho": 0.1} if algorithm == "fedsam" else None, **normed(name), **changes)
    run = simulation(tmp_path, spec, executor)
    advanced(run, 3)
    expected = Plain(tmp_path, spec).served(3)
    assert_close(run.weights.tensors(run.server["w"][0]), expected, 1e-10)
    passes = [value for key, value in expected.items() if key.endswith("tracked")]
    assert passes and all(value > 3 for value in passes)


@pytest.mark.parametrize("algorithm", ["fedavg", "fedsam", "scaffold", "mimelite", "fedgmt", "dfedsam"])
def test_executors_agree(tmp_path, normed, algorithm):
    spec = description(algorithm, **normed("plain"), **needs(algorithm))
    states = []
    for executor in ("sequential", "stacked"):
        run = simulation(tmp_path, spec, executor)
        advanced(run, 3)
        states.append(run.weights.tensors(run.server["w"][0]))
    assert_close(*states, 1e-12)


@pytest.mark.parametrize("mix_first", [False, True])
def test_neighbours_mix_statistics_as_models(tmp_path, normed, mix_first):
    """W X for the statistics of all nodes; the evaluated model has the means of the nodes' statistics."""
    spec = description("dfedavg", **normed("plain"), **needs("dfedavg"))
    algorithm = type("Mixing", (DFedAvg,), {"mix_first": mix_first})(**spec["update"]["params"])
    run = simulation(tmp_path, spec, "sequential", algorithm=algorithm)
    plain, rounds = Plain(tmp_path, spec), 3
    topology = Topology(TopologySettings(**spec["topology"]), run.client_count, run.seed)
    states = [copy.deepcopy(plain.server.state_dict()) for _ in range(run.client_count)]

    def mixed(states, round_):
        return [mean(states, row) for row in topology.mixing(round_)]

    for round_ in range(rounds):
        states = mixed(states, round_) if mix_first else states
        states = [plain.client(client, round_, state) for client, state in enumerate(states)]
        states = states if mix_first else mixed(states, round_)
    advanced(run, rounds)
    store, layout = run.state.store, run.weights.buffer_layout
    for client, state in enumerate(states):
        views = {**run.layout.views(store["model"][client]), **layout.views(store["buffers"][client])}
        assert_close(views, {key: state[key].double() for key in views}, 1e-10)
    assert_close(run.weights.tensors(run.server["w"][0]), mean(states), 1e-10)


@pytest.mark.parametrize(
    ("algorithm", "executor"), [("fedsam", "sequential"), ("fedsam", "stacked"), ("dfedsam", "stacked")]
)
def test_an_interruption_changes_no_bits(tmp_path, monkeypatch, normed, algorithm, executor):
    changes = {**normed("cumulative"), "executor": {"cpu": executor, "cuda": executor}}
    interrupted_job(monkeypatch, tmp_path, algorithm, "parts", **changes)
    assert_same(job(tmp_path, algorithm, "parts", **changes), job(tmp_path, algorithm, "whole", **changes), [0, 3])


def servers_statistics(run):
    return run.weights.buffer_layout.views(run.buffers[0])


def evaluated_module(run, row):
    """Return the model of ``row`` in plain PyTorch, in evaluation mode with the server's statistics."""
    module = initial_model(run.config)[0].double()
    module.load_state_dict(run.weights.tensors(row))
    return module.eval()


@pytest.mark.parametrize("algorithm", ["fedavg", "feddyn"])
def test_evaluations_use_the_servers_statistics_and_change_none(tmp_path, normed, algorithm):
    """Also of FedDyn's second model."""
    run = simulation(tmp_path, description(algorithm, **normed("plain")))
    advanced(run, 2)
    before, problem = run.buffers.clone(), Reference(tmp_path, run.config.as_json())
    evaluated = run.algorithm.evaluated(run.server).values()
    assert len(evaluated) == (2 if algorithm == "feddyn" else 1)
    for row in evaluated:
        expected = cross_entropy(evaluated_module(run, row[0])(problem.x[-20:]), problem.y[-20:]).detach()
        assert run.evaluate(row[0])["test_loss"] == pytest.approx(float(expected), abs=1e-10)
    assert torch.equal(run.buffers, before)


def test_the_probe_uses_the_servers_statistics_and_changes_nothing(tmp_path, normed):
    """F(w + rho g / ||g||) - F(w), g = grad F(w), of the model in evaluation mode; training goes on as without it."""
    probe, index = {"every": 1, "images": 9, "rho": 0.1, "m": 3}, torch.arange(9)
    spec = description("fedsam", **normed("plain"))
    run, other = simulation(tmp_path, {**spec, "probe": probe}), simulation(tmp_path, spec)
    advanced(run, 2), advanced(other, 2)
    problem, module = Reference(tmp_path, spec), evaluated_module(run, run.server["w"][0])

    def loss():
        return cross_entropy(module(problem.x[index]), problem.y[index])

    first, parameters = loss(), list(module.parameters())
    gradients = torch.autograd.grad(first, parameters)
    length = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter += 0.1 * gradient / length
    expected = (loss() - first).item()
    assert sharpness(run, run.server["w"], index) == pytest.approx(expected, rel=1e-6)
    drift(run, run.sample())
    advanced(run, 1), advanced(other, 1)
    assert_close(run.weights.tensors(run.server["w"][0]), other.weights.tensors(other.server["w"][0]), 0)


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_a_second_model_has_the_servers_statistics(tmp_path, normed, executor):
    """In evaluation mode, while the first model updates the client's."""
    run = simulation(tmp_path, description("fedgmt", **normed("plain")), executor)
    advanced(run, 2)
    seen, problem = [], Reference(tmp_path, run.config.as_json())
    run.executor.own_loss = lambda first, labels, second: seen.append(second) or first.sum(dim=1)
    x, y, w, buffers = problem.x[None, :4], problem.y[None, :4], run.server["w"], run.buffers + 1
    vmap = executor == "stacked"
    run.executor(w, Batch(x, y, torch.full((1, 4), 0.25).double(), [], w + 1, buffers))
    second = get_unwrapped(seen[0])[0] if vmap else seen[0]
    assert (second - evaluated_module(run, (w + 1)[0])(x[0])).abs().max() < 1e-12
    assert not torch.equal(buffers, run.buffers + 1)


def test_nodes_are_evaluated_with_their_own_statistics(tmp_path, normed):
    spec = description("dpsgd", **normed("plain"), **needs("dpsgd"))
    run = simulation(tmp_path, spec)
    run.evaluate.sets = ["nodes"]
    advanced(run, 1)
    models_, buffers = run.state.store["model"][:1], run.state.store["buffers"][:1]
    (column,) = run.evaluate.nodes(np.array([0]), models_, buffers)
    module = initial_model(run.config)[0].double()
    tensors = {**run.layout.views(models_[0]), **run.weights.buffer_layout.views(buffers[0])}
    module.load_state_dict(tensors)
    module.eval()
    problem = Reference(tmp_path, spec)
    index = problem.members[0]
    expected = float((module(problem.x[index]).argmax(dim=1) == problem.y[index]).double().mean())
    assert column["node_train_accuracy"] == expected


def test_evaluated_nodes_leave_the_servers_statistics_in_a_layer_of_two_names(tmp_path, normed):
    run = simulation(tmp_path, description("dpsgd", **normed("two_names"), **needs("dpsgd")))
    advanced(run, 1)
    run.evaluate.nodes(np.array([0]), run.state.store["model"][:1], run.state.store["buffers"][:1] + 1)
    found = dict(run.weights.evaluated.named_buffers())
    assert_close({key: found[key] for key in run.weights.buffer_layout.names}, servers_statistics(run), 0)


def test_asking_twice_for_w_mixes_and_counts_statistics_once(tmp_path, normed):
    class Twice(DFedAvg):
        def mix(self, models, mixing, ctx):
            mixing(0)
            return super().mix(models, mixing, ctx)

    spec = description("dfedavg", **normed("plain"), **needs("dfedavg"))
    runs = [simulation(tmp_path, spec, algorithm=kind(**spec["update"]["params"])) for kind in (DFedAvg, Twice)]
    one, other = runs
    for run in runs:
        advanced(run, 2)
    assert_close(one.state.store, other.state.store, 0)
    assert one.cost.counts == other.cost.counts


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_batches_of_evaluations_do_not_decide_a_full_gradient(tmp_path, normed, executor):
    """MimeLite's, of a model in which no layer has running statistics."""
    layers, states = normed("batches", LAYERS["untracked"], "nn.BatchNorm1d(5, track_running_stats=False)"), []
    for size in (7, 11):
        evaluation = {"evaluation": {"every": 1, "sets": ["test"], "batch_size": size}}
        run = simulation(tmp_path, description("mimelite", **layers, **evaluation), executor)
        advanced(run, 2)
        states.append(run.server)
    assert_close(*states, 0)


def test_hooks_never_see_statistics(tmp_path, normed, monkeypatch):
    """Neither in the context nor in uploads; a row has the trained parameters alone."""
    seen = []

    class Watching(FedAvg):
        def correct(self, g, w, ctx):
            seen.append({*ctx.server, *ctx.client, *ctx.scratch})
            assert g.shape[1] == w.shape[1] == ctx.layout.size
            return g

        def aggregate(self, server, uploads, ctx):
            seen.append({*server, *uploads, *ctx.server})
            return super().aggregate(server, uploads, ctx)

    run = simulation(tmp_path, description("fedavg", **normed("plain")), algorithm=Watching(server_learning_rate=1.0))
    advanced(run, 1)
    assert len(seen) > 1 and set.union(*seen) == {"w"}
    trained = sum(parameter.numel() for parameter in run.model.parameters())
    assert run.layout.size == trained == run.weights.parameters


def test_uploads_count_statistics(tmp_path, normed):
    run = simulation(tmp_path, description("scaffold", **normed("plain")))
    clients = len(run.sample())
    advanced(run, 1)
    statistics = 2 * (4 + 5) + 2
    assert run.cost.counts["upload"] == 8 * clients * (2 * run.layout.size + statistics)


@pytest.mark.parametrize("missing", [(), ("num_batches_tracked",), ("num_batches_tracked", "momentum"), ("bias",)])
def test_padding_stays_outside_the_statistics(missing):
    """Other padded images leave outputs and statistics of the others as they are."""
    layer, torch_layer = UnpaddedBatchNorm(4).double(), nn.BatchNorm2d(4).double()
    for module in (layer, torch_layer):
        for name in missing:
            setattr(module, name, None)
    layer._check_input_dim = lambda x: None
    layer.register_buffer("image_weights", torch.tensor([0.5, 0.5, 0.0]).double())
    x = torch.randn(3, 4, 5, 5, dtype=torch.double)
    x[2] *= 100
    assert (layer(x)[:2] - torch_layer(x[:2])).abs().max() < 1e-12
    assert (layer.running_var - torch_layer.running_var).abs().max() < 1e-12


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_a_batch_of_one_value_is_refused_before_the_first_round(tmp_path, normed, executor):
    """Clients of 7, 12, 5, ... images in batches of 4: some batch has one image. 8 x 8 pixels are enough values."""
    run = description("fedavg", **{**normed("plain"), "batch_size": 4})
    with pytest.raises(ConfigError, match=r"model plain: layer 'last' \(BatchNorm1d\) has one value .* 1 image"):
        simulation(tmp_path, run, executor)


def test_an_evaluation_of_one_value_without_running_statistics_ends_the_run(tmp_path, normed):
    """20 test images in batches of 19. The gradient of the probe's 8 images has batches of 7 and 1."""
    one_pixel = "nn.Sequential(nn.AvgPool2d(6), nn.BatchNorm2d(4{}), nn.Upsample(scale_factor=6))"
    tracked, untracked = one_pixel.format(""), one_pixel.format(", track_running_stats=False")
    evaluation = {"evaluation": {"every": 1, "sets": ["test"], "batch_size": 19}}
    advanced(simulation(tmp_path, description("fedavg", **normed("one", tracked), **evaluation)), 1)
    run = simulation(tmp_path, description("fedavg", **normed("two", untracked), **evaluation))
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        advanced(run, 1)
    probed = description("fedavg", **normed("two", untracked), probe={"every": 1, "rho": 0.1, "images": 8, "m": 8})
    with pytest.raises(ConfigError, match=r"layer 'norm.1' \(BatchNorm2d\) gets one value: it has no variance"):
        measure(simulation(tmp_path, probed, "stacked"))


def test_a_layer_that_mixes_images_with_padding_is_refused_by_name(tmp_path, normed):
    """One with statistics of its own, and BatchNorm on rows that are no images."""
    own = "type('Own', (nn.BatchNorm2d,), {'forward': lambda self, x: x - x.mean(0)})(4)"
    halves = "nn.Sequential(nn.Flatten(0, 1), nn.Unflatten(0, (-1, 2)), nn.BatchNorm2d(2)"
    rows = f"{halves}, nn.Flatten(0, 1), nn.Unflatten(0, (-1, 4)))"
    for name, layer, words in (
        ("own", own, r"stacked cannot run model own \(.*\): an image's .* first after layer 'norm' \(Own\)"),
        ("rows", rows, r"layer 'norm.2' \(BatchNorm2d\) gets 10 rows for 5 images, so padding .*: sequential`"),
    ):
        spec = description("fedavg", **normed(name, layer))
        advanced(simulation(tmp_path, spec, "sequential"), 1)
        with pytest.raises(ConfigError, match=words):
            simulation(tmp_path, spec, "stacked")


def test_recorded_steps_are_refused_by_name(tmp_path, normed):
    with pytest.raises(ConfigError, match=r"products .* model plain .*: layer 'norm' \(BatchNorm2d\).*`executor: st"):
        simulation(tmp_path, description("fedavg", **normed("plain")), "products")


def test_statistics_are_kept_in_float32_where_layers_are_rounded(tmp_path, normed):
    """In bfloat16, counts would end at 256."""
    for executor in ("sequential", "stacked"):
        run = simulation(tmp_path, description("fedavg", precision="bfloat16", **normed("plain")), executor)
        run.buffers[:] = 1001
        advanced(run, 1)
        count = run.weights.tensors(run.server["w"][0])["norm.num_batches_tracked"]
        assert run.buffers.dtype == torch.float32 and 1001 < count < 1020
