"""How many tensor operations a local step takes: an extra pass over the models, or a wait for the device, shows here.

Counted, not timed: on a GPU every operation is a launch, and on any device every pass over (rows, parameters) is memory
traffic. Counts are the difference between a round of three local steps and one of two.
"""

import re
import sys
import traceback
from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from workloads import ALGORITHMS, WORKLOADS

from flatfed import algorithms, models
from flatfed.engine.executors import Batch, Products
from flatfed.engine.job import assembly
from flatfed.engine.speed import live, row_convolution, row_norm
from repository import ROOT
from samples import sampled

PACKAGE = ROOT / "src/flatfed"
ROWS = 3
EXECUTORS = ("stacked", "sequential", "products")  # once over all rows, or (sequential) once for each

#: Algorithm -> gradients of a step; passes over the models next to those; operations on small tensors: what keeps a
#: norm from zero, and the norm over rho.
OWN = {
    "fedavg": (1, 0, 0),
    "fedadam": (1, 0, 0),  # adaptive at the server only
    "scaffold": (1, 1, 0),  # the correction
    "fedsam": (2, 3, 2),  # norm and quotient of e = rho g / ||g||; w + e
    "fedsmoo": (2, 3 + 2 + 2 + 1, 2),  # as FedSAM; g - mu - s; mu + e - s; the dual of h
}
STEP_PASSES = 4  # norm of the clip, clip, weight decay, update
GRADIENT_PASSES = {"stacked": 1, "sequential": 0, "products": 1}  # join the tensors, or each is put where it belongs

#: Operations that compute, with cnn_tiny: gathering and normalising a batch, clip, decay, update, sum of losses; and of
#: a gradient, forward and backward through two convolutions, two pools and a dense layer. A dozen of the stacked ones
#: bring images and kernels of all rows into the order of a grouped convolution, six of the sequential ones put
#: the gradients of tensors into the row.
STEP_OPERATIONS = 18
GRADIENT_OPERATIONS = {"stacked": 46, "sequential": 36, "products": 58}
RESNET_OPERATIONS = {"torch": 623, "triton": 189}  # of a gradient of any number of rows

#: What makes the host wait for the device, or move values between them.
WAITS = ("_local_scalar_dense", "item", "nonzero", "is_nonzero", "equal", "masked_select", "unique_dim", "_unique2")
NOTHING = ("_unsafe_view", "empty", "empty_like", "new_empty", "empty_strided")  # neither read nor write
AS_PAPER = {"augmentation": "crop_flip_half", "model": {"name": "cnn", "options": {}}}  # crops, flips, dropout


class Operations(TorchDispatchMode):
    """Counts what is computed: ``names``, views left out; ``passes`` those that read or write whole rows."""

    def __init__(self, size: int):
        super().__init__()
        self.size = size
        self.names: Counter[str] = Counter()
        self.passes: Counter[str] = Counter()

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        name = str(function.overloadpacket)
        if not function.is_view and name.removeprefix("aten.") not in NOTHING:
            self.names[name] += 1
            tensors = [one for one in tree_leaves((arguments, options, result)) if isinstance(one, torch.Tensor)]
            if name.startswith("aten.index") and any(one.dtype == torch.bool for one in tensors):
                self.names["aten.nonzero"] += 1  # which the kernel of an index by a mask calls
            if any(one.shape[-1:] == (self.size,) for one in tensors):
                self.passes[name] += 1
        return result


def counted(name: str, executor: str, steps: int, rows: int = ROWS, **changes) -> Operations:
    """Return the operations of the second round, of so many local steps, on images of CIFAR's shape if augmented."""
    workload = WORKLOADS["W2-32" if changes else "W3-10"].but(clients=rows, steps=steps)
    config, device = workload.config(name, **changes), torch.device("cpu")
    run = assembly.simulation(config, *workload.data(), device, executor)
    run.advance()
    with Operations(run.layout.size) as found:
        run.advance()
    return found


def of_a_step(name: str, executor: str, rows: int = ROWS) -> tuple[int, int]:
    """Return the number of operations and of passes of one local step."""
    two, three = (counted(name, executor, steps, rows) for steps in (2, 3))
    return (three.names - two.names).total(), (three.passes - two.passes).total()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", sampled(ALGORITHMS, ["fedsmoo"]))
def test_a_step_takes_no_more_than_it_must(name, executor):
    operations, passes = of_a_step(name, executor)
    gradients, own, small = OWN[name]
    blocks = ROWS if executor == "sequential" else 1
    assert passes <= blocks * (STEP_PASSES + own + gradients * GRADIENT_PASSES[executor])
    assert operations <= blocks * (STEP_OPERATIONS + own + small + gradients * GRADIENT_OPERATIONS[executor])
    if name == "fedsmoo":
        more = of_a_step(name, executor, 2 * ROWS)[0]
        assert more == operations * (2 if executor == "sequential" else 1), "stacked rows share their operations"


class Launches:
    """A Triton kernel that does nothing, but counts its launches in ``found``."""

    found: Operations

    def __getitem__(self, grid):
        return lambda *_, **__: self.found.names.update(["launch"])


@pytest.mark.parametrize("form", RESNET_OPERATIONS)
def test_a_gradient_of_ten_rows_of_a_resnet(monkeypatch, form):
    """Stacked needs 428 operations, sequential 254 for each row."""
    if form == "triton":  # as on a GPU
        pytest.importorskip("triton", reason="Triton comes with torch's CUDA builds")
        from flatfed.engine.speed import convolution_kernels, norm_kernels

        for layers, kernels, names in (
            (row_convolution, convolution_kernels, ("_columns", "_fold", "_implicit_product")),
            (row_norm, norm_kernels, ("_norm_forward", "_norm_backward")),
        ):
            monkeypatch.setattr(layers, "accelerated_for", lambda tensor, kernels=kernels: kernels)
            for name in names:
                monkeypatch.setattr(kernels, name, Launches())
    shape, rows = (3, 32, 32), 10
    model = models.build("resnet18_gn", shape, 10, {"stem": "imagenet", "groups": 2})
    initial = models.initial_weights(model, torch.Generator().manual_seed(0))
    options = algorithms.build("fedavg", {}), shape, torch.device("cpu"), torch.float32
    weights = live.weights(model, initial, *options, rows_at_once=True)
    executor, w = Products(weights.model, weights.layout), weights.initial.repeat(rows, 1)
    labels = torch.zeros(rows, 1, dtype=torch.int64)
    batch = Batch(torch.zeros(rows, 1, *shape), labels, torch.zeros(rows, 1), [])
    for _ in range(2):  # the first call keeps the pixels that entries read
        with Operations(weights.layout.size) as Launches.found:
            executor(w, batch)
    assert Launches.found.names.total() <= RESNET_OPERATIONS[form], dict(Launches.found.names)


def test_the_walk_of_a_step_is_that_of_docs_architecture():
    """Its calls, first by first, in at most seven files; no gradient is deeper than seven calls."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").partition("## FedSMOO's step")[2]
    walk = re.findall(r"^\| `(\w+)` \| `([\w/]+\.py)` \|", page.partition("\n## ")[0], re.MULTILINE)
    calls, depths = [], []

    def noted(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(f"{PACKAGE}/"):
            calls.append((frame.f_code.co_name, frame.f_code.co_filename.removeprefix(f"{PACKAGE}/")))
            if calls[-1][0] == "compute_row":
                depths.append([f.f_code.co_name for f, _ in traceback.walk_stack(frame)].index("run_clients") + 1)

    sys.setprofile(noted)
    try:
        counted("fedsmoo", "sequential", 2)
    finally:
        sys.setprofile(None)
    first = {call: number for number, call in reversed(list(enumerate(calls)))}
    assert sorted(walk, key=first.__getitem__) == walk and len(walk) > 10
    assert len({file for _, file in walk}) <= 7 and max(depths) == 7


#: Algorithm, executor, changes.
ROUNDS = [(name, executor, changes) for name in ALGORITHMS for executor in EXECUTORS for changes in ({}, AS_PAPER)]
SAMPLE = [("fedsmoo", "sequential", {}), ("fedavg", "stacked", AS_PAPER), ("fedavg", "products", {})]


@pytest.mark.parametrize("case", sampled(ROUNDS, SAMPLE), ids=lambda case: " ".join([*case[:2], *case[2]]))
def test_nothing_in_a_round_waits_for_the_device(case):
    name, executor, changes = case
    names = counted(name, executor, 2, **changes).names
    assert names["aten.bmm" if executor == "products" else "aten.convolution_backward"]
    assert not [name for name in WAITS if f"aten.{name}" in names]
