"""A user's model is trained, evaluated, analysed and stored as its file says; what a run would change is refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.func import functional_call, hessian
from torch.nn.functional import cross_entropy

from flatfed import models
from flatfed.analysis import trained_model
from flatfed.analysis.hessian.measure import _products
from flatfed.analysis.trained_model import AnalysisInputs
from flatfed.engine import weights
from flatfed.engine.evaluate import Score
from flatfed.engine.executors import Batch
from flatfed.engine.weights import initial_model
from flatfed.errors import ConfigError
from flatfed.models.user_model import mixing_layer
from flatfed.runs import record as records
from flatfed.runs.run_config import RunConfig
from harness import DROPOUT, Reference, advanced, assert_same, description, interrupted_job, job, lines, simulation
from plain import Plain
from samples import sampled

SHAPE = (1, 8, 8)
HEAD = "import random\nimport numpy as np\nimport torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"

#: Name -> constructor and forward pass of a module of images (1, 8, 8) and three classes.
MODULES = {
    "frozen": (
        "self.body = nn.Linear(64, 5).requires_grad_(False)\n        self.head = nn.Linear(5, 3)",
        "self.head(torch.tanh(self.body(x.flatten(1))))",
    ),
    "counted": (
        "self.power = nn.Parameter(torch.tensor([2]), requires_grad=False)\n        self.head = nn.Linear(64, 3)",
        "self.head(x.flatten(1) ** self.power)",
    ),
    "tied": (
        "self.a = nn.Linear(64, 64)\n        self.b = nn.Linear(64, 64)\n        self.head = nn.Linear(64, 3)\n"
        "        self.b.weight = self.a.weight",
        "self.head(torch.tanh(self.b(torch.tanh(self.a(x.flatten(1))))))",
    ),
    "moded": (  # its train() returns nothing
        "self.head = nn.Linear(64, 3)\n    def train(self, mode=True):\n        super().train(mode)",
        "self.head(x.flatten(1)) * (1 if self.training else -1)",
    ),
    "viewed": (
        "self.conv1, self.conv2 = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 5, 3)\n        self.head = nn.Linear(20, 3)",
        "self.head(F.max_pool2d(F.relu(self.conv2(self.conv1(x))), 2).relu().view(-1, 20))",
    ),
    "generated": (  # contiguous images, but a convolution that executors replace
        "self.start, self.conv, self.head = nn.Linear(64, 16), nn.Conv2d(4, 4, 3, padding=1), nn.Linear(16, 3)",
        "self.head(self.conv(self.start(x.flatten(1)).view(-1, 4, 2, 2)).tanh().view(-1, 16))",
    ),
    "lazy": (
        "self.conv, self.head = nn.Conv2d(1, 4, 3), nn.LazyLinear(3)",
        "self.head(self.conv(x).tanh().view(-1, 144))",
    ),
    "normed": (
        "self.conv, self.head = nn.Conv2d(1, 4, 3), nn.Linear(144, 3)\n"
        "        self.norm = nn.BatchNorm2d(4, track_running_stats=False)",
        "self.head(self.norm(self.conv(x)).tanh().flatten(1))",
    ),
    "tracked": (
        "self.conv, self.norm, self.head = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Linear(144, 3)",
        "self.head(self.norm(self.conv(x)).tanh().flatten(1))",
    ),
    "scaled": (  # a scalar parameter
        "self.head, self.scale = nn.Linear(64, 3), nn.Parameter(torch.tensor(0.5))",
        "self.head(x.flatten(1)) * self.scale.exp()",
    ),
    "encoder": (  # its dropout layers drop nothing
        "self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)\n"
        "        self.head = nn.Linear(64, 3)",
        "self.head(self.block(x[:, 0]).flatten(1))",
    ),
    "weight_normed": (
        "self.head = nn.utils.parametrizations.weight_norm(nn.Linear(64, 3))",
        "self.head(x.flatten(1))",
    ),
    "recurrent": (
        "self.gru, self.head = nn.GRU(8, 5, batch_first=True), nn.Linear(5, 3)",
        "self.head(self.gru(x[:, 0])[0][:, -1])",
    ),
    "placed": (
        "self.register_buffer('place', torch.linspace(-1, 1, 64))\n        self.head = nn.Linear(64, 3)",
        "self.head(x.flatten(1) + self.place)",
    ),
}


def source(constructor: str, forward: str) -> str:
    """Return the text of a model's file."""
    return (
        f"{HEAD}class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {constructor}\n"
        f"    def forward(self, x, masks=None):\n        return {forward}\ndef build(shape, classes):\n"
        "    return Net()\n"
    )


@pytest.fixture
def own(tmp_path_factory, monkeypatch):
    """Return a function that writes a user's model and returns the setting ``model`` of a run."""
    folder = tmp_path_factory.mktemp("models")
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(folder)])

    def write(name, constructor="", forward=""):
        standard = MODULES.get(name, ("self.head = nn.Linear(64, 3)", "self.head(x.flatten(1))"))
        (folder / f"{name}.py").write_text(source(constructor or standard[0], forward or standard[1]))
        return {"model": {"name": name, "options": {}}}

    return write


TRAINED = [name for name in MODULES if name != "tracked"]  # its training: tests/engine/test_batch_norm.py
#: (model, executor) that are refused by name. vmap has no rule for torch's recurrent layers.
REFUSED = {("normed", "products"), ("recurrent", "stacked"), ("recurrent", "products")}
PAIRS = [(name, executor) for name in TRAINED for executor in ("sequential", "stacked", "products")]
EXECUTORS = [pair for pair in PAIRS if pair not in REFUSED]
SAMPLE = [("viewed", "products"), ("normed", "sequential"), ("recurrent", "sequential")]
SAMPLE += [pair for pair in EXECUTORS if pair[1] == "stacked"]


@pytest.mark.parametrize("case", sampled(EXECUTORS, SAMPLE), ids=" ".join)
def test_a_model_trains_as_in_plain_pytorch(tmp_path, own, case):
    """Frozen, tied and lazy parameters, whole numbers, buffers, batch statistics, a mode, and views of convolutions."""
    name, executor = case
    spec = description("fedavg", **own(name))
    run = simulation(tmp_path, spec, executor)
    advanced(run, 3)
    expected, found = Plain(tmp_path, spec).served(3), run.weights.tensors(run.server["w"][0])
    assert found.keys() == expected.keys()
    for tensor in expected:
        assert (found[tensor] - expected[tensor]).abs().max() < 1e-10, tensor
    trained = sum(value.numel() for value in initial_model(run.config)[0].parameters() if value.requires_grad)
    assert run.layout.tensor_size == run.weights.parameters == trained
    assert run.cost.counts["upload"] == 8 * trained * sum(len(run.sample(k - 3)) for k in range(3))


@pytest.mark.parametrize("name", ["frozen", "tied", "counted", "placed", "moded", "tracked"])
def test_a_model_file_is_the_state_dict_and_analyses_read_it(tmp_path, own, name):
    """Its scores are those of plain PyTorch in evaluation mode; its curvature is torch's, in the weights that train."""
    out = job(tmp_path, "fedavg", "out", **own(name), precision="float64")
    state = load_file(out / "model.safetensors")
    module = initial_model(records.read_finished(out).config)[0].double()
    module.eval()
    built = {key: value.clone() for key, value in module.state_dict().items()}
    module.load_state_dict(state)
    tensors = {key: value.detach() for key, value in module.named_parameters() if value.requires_grad}
    named = module.named_parameters(remove_duplicate=False)
    untrained = set(state) - {key for key, value in named if value.requires_grad}
    assert len(untrained) == {"frozen": 2, "counted": 1, "placed": 1, "tracked": 3}.get(name, 0)
    assert all(torch.equal(state[key], built[key]) is (name != "tracked") for key in untrained)
    trained = trained_model.load(out, AnalysisInputs(tmp_path / "data", tmp_path / "partition.npz", "cpu"))
    assert torch.equal(trained.row, torch.cat([value.flatten() for value in tensors.values()]))

    test = torch.from_numpy(trained.partition.test)
    images, labels = (values.contiguous() for values in trained.batch(test))
    hits = module(images).argmax(dim=1) == labels
    assert lines(out)[-1]["test_accuracy"] == str(float(hits.double().mean()))
    assert torch.equal(Score(trained.model, trained.layout, trained.data, 7, lambda: None)(trained.row, test)[1], hits)

    products, _ = _products(trained, test, SimpleNamespace(micro_batch=7, block=1))
    vector = torch.randn(1, len(trained.row), dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def loss(row):
        return cross_entropy(functional_call(module, trained.layout.views(row), (images,)), labels)

    assert (products(vector) - vector @ hessian(loss)(trained.row)).abs().max() < 1e-10


def test_a_resumed_training_has_the_frozen_tensors_of_the_checkpoint(tmp_path, own, monkeypatch):
    """Also where torch would draw others now."""
    changes = own("frozen")
    interrupted_job(monkeypatch, tmp_path, "fedavg", "parts", **changes)
    whole = job(tmp_path, "fedavg", "whole", **changes)
    monkeypatch.setattr(weights, "torch_seed", lambda *key: 99)
    assert_same(job(tmp_path, "fedavg", "parts", **changes), whole, [0, 3])


@pytest.mark.parametrize("name", ["cnn", "moded"])
def test_the_second_model_is_in_evaluation_mode(tmp_path, own, name):
    """Without the first model's dropout masks; here they drop everything, so the first logits are the last bias."""
    changes = {"model": DROPOUT} if name == "cnn" else own(name)
    run = simulation(tmp_path, description("fedgmt", **changes), "sequential")
    seen, x, w = [], Reference(tmp_path, run.config.as_json()).x[:4], run.server["w"]
    run.executor.own_loss = lambda first, labels, second: seen.append((first, second)) or first.sum(dim=1)
    masks = [torch.zeros(1, 4, *shape, dtype=torch.float64) for shape, _ in run.model.dropout]
    run.executor(w, Batch(x[None], torch.zeros(1, 4, dtype=torch.int64), torch.ones(1, 4).double(), masks, w + 1))
    ((first, second),) = seen
    views = run.layout.views((w + 1)[0])
    expected = functional_call(run.model, views, (x,)) * (1 if name == "cnn" else -1)
    assert (second - expected).abs().max() < 1e-12 * expected.abs().max()
    assert name != "cnn" or torch.allclose(first, run.layout.views(w[0])["dense2.bias"].expand(4, -1))


HEADS = "self.head = nn.Linear(64, 3); "


@pytest.mark.parametrize(
    ("constructor", "forward", "words"),
    [
        ("torch.manual_seed(42); " + HEADS, "", "build seeds torch's global generator"),
        ("np.random.seed(0); " + HEADS, "", "build seeds NumPy's global generator"),
        ("random.seed(0); " + HEADS, "", "build seeds Python's global generator"),
        (
            f"{HEADS}[nn.init.normal_(p, generator=torch.Generator().manual_seed(1)) for p in self.parameters()]",
            "",
            "two seeds have the same weights",
        ),
        (f"{HEADS}nn.init.constant_(self.head.bias, np.random.default_rng().normal())", "", "two builds with the same"),
        ("", "self.head(F.dropout(x.flatten(1), 0.5))", "its forward draws from torch's global generator"),
        (
            f"{HEADS}self.register_buffer('seen', torch.zeros(1))",
            "self.head(x.flatten(1)) + self.seen.add_(1)",
            "a pass changes the buffer 'seen'",
        ),
        (
            "self.norm = nn.InstanceNorm2d(1, track_running_stats=True); " + HEADS,
            "self.head(self.norm(x).flatten(1))",
            "a pass changes the buffer 'norm.running_mean'",
        ),
        (f"{HEADS}self.other = nn.LazyLinear(3)", "", "a pass gives the lazy parameter 'other.weight' no shape"),
        ("self.head = nn.Linear(64, 3).requires_grad_(False)", "", "has no parameter to train"),
        ("self.gain = nn.Parameter(torch.ones(3) * 1j)", "x[:, 0, 0, :3] * self.gain.real", "'gain' is torch.complex"),
        (HEADS, "self.head(x.flatten(1)) if self.training else x", r"its output for 2 images has shape (2, 1, 8, 8)"),
    ],
)
def test_a_model_that_a_run_would_change_is_refused_by_check_and_training(tmp_path, own, constructor, forward, words):
    changes = own("refused", constructor, forward)
    with pytest.raises(ConfigError) as caught:
        models.check_runs("refused", (1, 8, 8), 3, {}, "protocols.mine.model")
    assert f"protocols.mine.model: refused ({models.own_file('refused')})" in str(caught.value)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        simulation(tmp_path, description("fedavg", **changes))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("constructor", "differ"),
    [
        (f"{HEADS}nn.init.constant_(self.head.bias, np.random.normal() + random.random())", True),
        (f"{HEADS}[nn.init.constant_(p, 0.5) for p in self.parameters()]", False),
    ],
)
def test_weights_follow_the_seed_or_are_constant(own, constructor, differ):
    config = RunConfig(**description("fedavg", **own("drawn", constructor)))
    models.check_runs("drawn", (1, 8, 8), 3, {}, "model")
    first, again, other = (initial_model(config.changed(seed=seed))[1] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert torch.equal(first[-3:], other[-3:]) is not differ


def test_batch_statistics_of_few_features_are_recognised():
    """In a batch of two, each feature would be 1 or -1."""
    for seed in range(20):
        torch.manual_seed(seed)
        norm = nn.BatchNorm1d(4, track_running_stats=False)
        module = nn.Sequential(nn.Flatten(), nn.Linear(64, 4), norm, nn.Linear(4, 3))
        assert mixing_layer(module, SHAPE) == "layer '2' (BatchNorm1d)", seed


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_frozen_tensors_are_rounded_as_the_layers(tmp_path, own, executor):
    """A gradient in bfloat16 is that of plain PyTorch on the module converted to it, up to the order of sums."""
    constructor, forward = MODULES["frozen"]
    constructor += "\n        self.register_buffer('place', torch.linspace(-1, 1, 64))"
    changes = own("rounded", constructor, forward.replace("x.flatten(1)", "x.flatten(1) + self.place"))
    run = simulation(tmp_path, description("fedavg", precision="bfloat16", **changes), executor)
    problem, module = Reference(tmp_path, description("fedavg")), initial_model(run.config)[0].to(torch.bfloat16)
    x, y, w = problem.x[:4].float(), problem.y[:4], run.server["w"]
    loss = cross_entropy(module(x.to(torch.bfloat16)).float(), y)
    gradients = torch.autograd.grad(loss, [module.head.weight, module.head.bias])
    rows = w.expand(2, -1).contiguous()
    batch = Batch(x.expand(2, *x.shape), y.expand(2, -1), torch.full((2, 4), 0.25), [])
    losses, found = run.executor(rows, batch)
    assert torch.allclose(losses, loss.detach().expand(2), rtol=0.01)
    expected = torch.cat([part.flatten() for part in gradients]).float()
    assert all((row - expected).norm() < 0.01 * expected.norm() for row in found)


def test_layers_of_convolutions_that_are_frozen_or_tied_keep_their_taps(tmp_path, own):
    """A kernel that mostly sees padding, in a frozen layer and in two that share it."""
    constructor = (
        "self.a, self.b, self.c = nn.Conv2d(1, 2, 3, 4, 1), nn.Conv2d(2, 2, 5, 2, 2), nn.Conv2d(2, 2, 5, 1, 2)\n"
        "        self.c.weight, self.head = self.b.weight, nn.Linear(2, 3)\n        LINE"
    )
    forward = "self.head(self.c(self.b(self.a(x)).tanh()).flatten(1))"
    for name, line in (("shared", "pass"), ("held", "self.b.requires_grad_(False)")):
        spec = description("fedavg", **own(name, constructor.replace("LINE", line), forward))
        run = simulation(tmp_path, spec, "products")
        advanced(run, 1)
        expected, found = Plain(tmp_path, spec).served(1), run.weights.tensors(run.server["w"][0])
        assert all((found[tensor] - expected[tensor]).abs().max() < 1e-10 for tensor in expected)
