"""Numbers that do not repeat are refused with file and hook; the checks change no number."""

import re
from itertools import product
from textwrap import indent

import pytest
import torch

from flatfed import models
from flatfed.algorithms.fedavg import FedAvg
from flatfed.algorithms.fedrobust import FedRobust
from flatfed.engine.checks import contract, first_round, repeats
from flatfed.errors import FlatFedError
from harness import advanced, description, job, lines, needs, simulation, sizes, write_problem
from samples import sampled

EXECUTORS = "sequential", "stacked", "products"
ARGUMENTS = {
    **{"start": "w, ctx", "perturbation": "w, gradient, ctx", "update_dual": "e, ctx", "correct": "g, w, ctx"},
    **{"update": "w, d, ctx", "finish": "w, ctx", "aggregate": "server, uploads, ctx"},
}
RANDOM = "import numpy as np\n\nGENERATOR = np.random.default_rng(0)\n\n\n"


def write(outside, *hooks: tuple[str, str]) -> str:
    """Write an algorithm ``fedbad`` with ``hooks`` (name, body) next to a generator; return its path."""
    parts = [f"def {name}(self, {ARGUMENTS[name]}):\n{indent(body, '    ')}\n" for name, body in hooks]
    body = indent("scratch = ('x',)\n" + "\n".join(parts), "    ")
    return str(outside.write("fedbad", f"{RANDOM}class FedBad(FedAvg):\n{body}"))


DRAW = "GENERATOR.random()"
MEAN = "uploads['w'].mean(dim=0, keepdim=True)"
#: Hook -> body that does not repeat.
BAD = {
    "start": f"return {{'x': w + {DRAW}}}",
    "correct": f"return g * {DRAW}",
    "update": f"return w - {DRAW} * ctx.lr * d",
    "finish": f"return {{}}, {{'w': w * {DRAW}}}",
    "aggregate": f"return {{'w': {DRAW} * {MEAN}}}",
}


@pytest.mark.parametrize("name", BAD)
def test_a_generator_of_ones_own_is_refused_with_its_hook(tmp_path, outside, name):
    path = write(outside, (name, BAD[name]))
    message = rf"^{re.escape(path)}: FedBad\.{name}: returns other numbers .* the second time.*ctx\.uniform"
    with pytest.raises(FlatFedError, match=message):
        job(tmp_path, "fedbad", "run")
    assert not (tmp_path / "run" / "metrics.csv").exists()
    with pytest.raises(FlatFedError, match=message):
        list(contract.check("fedbad"))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_counter_of_steps_in_python_is_refused(tmp_path, outside, executor):
    """`start` sets it to 0: it is right in any order of clients, but a recorded step would repeat one number."""
    counts = "self.step += 1\nreturn g / self.step"
    path = write(outside, ("start", "self.step = 0\nreturn {}"), ("correct", counts))
    message = rf"^{re.escape(path)}: FedBad\.start or .*: FedBad\.correct: .*number of the step from ctx\.step"
    with pytest.raises(FlatFedError, match=message):
        job(tmp_path, "fedbad", "run", executor={"cpu": executor, "cuda": executor})
    with pytest.raises(FlatFedError, match=message):
        list(contract.check("fedbad"))


def test_draws_from_a_global_generator_are_refused_in_a_later_round(tmp_path, outside):
    draws = "if ctx.round == 2:\n    import torch\n    w.add_(torch.randn(w.shape, dtype=w.dtype))\nreturn {}"
    write(outside, ("start", draws))
    with pytest.raises(FlatFedError, match=r"^algorithm FedBad or model TinyCNN draws from torch's generator"):
        job(tmp_path, "fedbad", "run")


MODEL = """import torch
from torch import nn


class Flat(nn.Sequential):
    def forward(self, x):
        FORWARD
        return super().forward(x)


def build(shape, classes):
    return Flat(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], 8), nn.Tanh(), nn.Linear(8, classes))
"""


@pytest.fixture
def written(tmp_path):
    """Return a function of (name, line of the forward pass) that writes a user's model."""
    folder = tmp_path / "models"
    folder.mkdir()

    def write(name, line):
        (folder / f"{name}.py").write_text(MODEL.replace("FORWARD", line))
        models.look_in([folder], "a test")
        return {"model": {"name": name, "options": {}}}

    return write


def test_a_model_with_random_numbers_of_its_own_is_named(tmp_path, written):
    noise = "x = x + torch.rand(x.shape, dtype=x.dtype, generator=GENERATOR)"
    model = written("noisy", noise)
    path = tmp_path / "models" / "noisy.py"
    path.write_text(path.read_text().replace("\n\n\nclass", "\n\nGENERATOR = torch.Generator()\n\n\nclass"))
    with pytest.raises(FlatFedError, match=rf"^{re.escape(str(path))}: forward: returns other numbers"):
        job(tmp_path, "fedavg", "run", executor={"cpu": "sequential", "cuda": "sequential"}, **model)


#: In place -> as new tensors.
FORWARDS = {
    "x.mul_(0.5)": "x = x * 0.5",
    "x -= x.mean(dim=(1, 2, 3), keepdim=True)": "x = x - x.mean(dim=(1, 2, 3), keepdim=True)",
}


@pytest.mark.parametrize("executor", sampled(EXECUTORS, ["stacked"]))
@pytest.mark.parametrize("forward", FORWARDS)
def test_a_forward_pass_that_changes_its_images_trains_as_one_that_does_not(tmp_path, written, forward, executor):
    changed, right = written("changes", forward), written("copies", FORWARDS[forward])
    for name in ("fedsam", "fedgmt", "scaffold"):
        runs = [simulation(tmp_path, description(name, **model), executor) for model in (changed, right)]
        assert advanced(runs[0], 3) == advanced(runs[1], 3)
        assert torch.equal(runs[0].server["w"], runs[1].server["w"])
    images = torch.ones(2, 1, 8, 8)  # analyses also pass images more than once
    models.build("changes", (1, 8, 8), 3, {})(images)
    assert (images == 1).all()


class Shifts(FedRobust):
    """Changes the images of the step in place, which a second gradient would read."""

    def transform(self, images, front):
        return images.mul_(0.5)


class Smooths(FedAvg):
    """Changes the labels of the step in place."""

    def second_model(self, ctx):
        return ctx.received

    def loss(self, logits, labels, second):
        return logits.gather(1, labels.mul_(0)[:, None])[:, 0]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("hook", [Shifts.transform, Smooths.loss])
def test_a_hook_that_changes_its_batch_is_refused(tmp_path, executor, hook):
    kind = {"transform": Shifts, "loss": Smooths}[hook.__name__]
    run = simulation(tmp_path, description("fedavg"), executor, algorithm=kind())
    with pytest.raises(FlatFedError, match=rf"test_repeats\.py: {hook.__qualname__}: changes images, labels or masks"):
        run.advance()


def test_uploads_that_aggregate_changes_are_refused(tmp_path, outside):
    """The column consistency would have another distance: 0 where all uploads become the new model."""
    path = write(outside, ("aggregate", f"mean = {MEAN}\nuploads['w'].copy_(mean)\nreturn {{'w': mean}}"))
    with pytest.raises(FlatFedError, match=rf"^{re.escape(path)}: FedBad\.aggregate: changes uploads in place"):
        job(tmp_path, "fedbad", "run")


CASES = [*product(["fedsmoo", "scaffold", "fedlesam", "fedgmt", "fedrobust", "dfedsam", "fedwmsam"], EXECUTORS)]


@pytest.mark.parametrize("case", sampled(CASES, [("fedsmoo", "sequential"), ("fedgmt", "stacked")]), ids=" ".join)
def test_a_repeated_step_changes_no_number(tmp_path, case):
    name, executor = case
    write_problem(tmp_path, sizes(name))
    plain, repeated = (simulation(tmp_path, description(name, **needs(name)), executor) for _ in range(2))
    expected, found = advanced(plain, 4), []
    for _ in range(4):
        with first_round.checked(repeated), repeats.checked(repeated):
            found += advanced(repeated, 1)
    assert found == expected
    for vectors, right in ((repeated.server, plain.server), (repeated.state.store, plain.state.store)):
        assert all(torch.equal(values, right[key]) for key, values in vectors.items())


def test_a_diverging_run_is_no_run_that_does_not_repeat(tmp_path):
    assert lines(job(tmp_path, "fedsam", "run", learning_rate=1e30, clip_norm=None)) == []


#: A hook that treats coordinates differently, in a class that declares whole_rows.
SIGNS = "whole_rows = True\n\n    def update(self, w, d, ctx):\n        return w - ctx.lr * d.sign()"
#: 5x5 kernels on images of 2 x 2 pixels, most of which only meet padding.
PADDED = {"model": {"name": "cnn_5x5", "options": {}}}


def test_a_wrong_declaration_of_whole_rows_is_refused(tmp_path, outside):
    path = outside.write("fedbad", f"class FedBad(FedAvg):\n    {SIGNS}\n")
    message = rf"^{re.escape(str(path))}: server vector 'w' changes by .* `whole_rows` is True: a hook"
    with pytest.raises(FlatFedError, match=message):
        list(contract.check("fedbad"))
    write_problem(tmp_path, side=4)
    dataset = {**description("fedavg")["dataset"], "shape": [1, 4, 4]}
    with pytest.raises(FlatFedError, match=message):
        job(tmp_path, "fedbad", "run", dataset=dataset, rounds=1, **PADDED)
    outside.write("fedgood", f"class FedGood(FedAvg):\n    {SIGNS.replace('True', 'False')}\n")
    assert len(lines(job(tmp_path, "fedgood", "run", dataset=dataset, rounds=1, **PADDED))) == 1
