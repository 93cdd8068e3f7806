"""The engine names file and hook of a wrong value, and writes what hooks return, in whatever way they made it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
import torch

from flatfed import algorithms
from flatfed.engine.checks import first_round
from flatfed.errors import FlatFedError
from harness import description, simulation, write_problem
from repository import SRC

ROWS = r"a tensor \(\d, \d+\) of torch.float64"
GRADIENT = "    def perturbation(self, w, gradient, ctx):\n        return gradient(w)\n\n"

#: Mistake -> (body of a class FedBad(FedAvg), the hook that the message names, the message after it).
MISTAKES = {
    "update binds a name": (
        "def update(self, w, d, ctx):\n        w = w - ctx.lr * d",
        "update",
        f"returned None; expected: {ROWS}",
    ),
    "start returns a tensor": (
        "def start(self, w, ctx):\n        return w",
        "start",
        f"returned {ROWS}; expected: a dict of vectors of scratch",
    ),
    "correct forgets to return": (
        "def correct(self, g, w, ctx):\n        g.mul_(2)",
        "correct",
        f"returned None; expected: {ROWS}",
    ),
    "correct has one row for all": (
        "def correct(self, g, w, ctx):\n        return g.mean(dim=0, keepdim=True)",
        "correct",
        rf"returned a tensor \(1, \d+\) of torch.float64; expected: {ROWS}",
    ),
    "correct has another type": (
        "def correct(self, g, w, ctx):\n        return g.float()",
        "correct",
        rf"returned a tensor \(\d, \d+\) of torch.float32; expected: {ROWS}",
    ),
    "perturbation is a number": (
        "def perturbation(self, w, gradient, ctx):\n        return 0.1",
        "perturbation",
        f"returned 0.1; expected: {ROWS}",
    ),
    "a dual is not declared": (
        f'{GRADIENT.strip()}\n\n    def update_dual(self, e, ctx):\n        return {{"mu": e}}',
        "update_dual",
        "returned a vector 'mu', which client_state does not declare; declared: none",
    ),
    "finish returns the uploads alone": (
        'def finish(self, w, ctx):\n        return {"c": w}',
        "finish",
        r"returned \{'c': .*; expected: two dicts, client vectors and uploads",
    ),
    "finish uploads a mean": (
        'def finish(self, w, ctx):\n        return {}, {"delta": w.mean(dim=0)}',
        "finish",
        r"returned a tensor \(\d+,\) of torch.float64; expected: as upload 'delta' a tensor \(\d, any\)",
    ),
    "aggregate changes in place as in earlier versions": (
        'def aggregate(self, server, uploads, ctx):\n        server["w"].copy_(uploads["w"].mean(dim=0, keepdim=True))',
        "aggregate",
        r"returned None; expected: a dict of vectors of server_state, \{\} if none changes",
    ),
    "aggregate returns all rows": (
        'def aggregate(self, server, uploads, ctx):\n        return {"w": uploads["w"]}',
        "aggregate",
        rf"returned {ROWS}; expected: as 'w' a tensor \(1, \d+\)",
    ),
    "start returns a vector of the engine": (
        'remembers = True\n\n    def start(self, w, ctx):\n        return {"previous": w}',
        "start",
        "returned a vector 'previous', which scratch does not declare; declared: none",
    ),
    "aggregate returns no model": (
        "def aggregate(self, server, uploads, ctx):\n        return {}",
        "aggregate",
        r"returned \[\]; expected: the next model 'w'",
    ),
    "aggregate returns what is not declared": (
        'server_state = ("v",)\n\n    def aggregate(self, server, uploads, ctx):\n        return {"m": server["v"]}',
        "aggregate",
        "returned a vector 'm', which server_state does not declare; declared: 'w', 'v'",
    ),
}


def written(outside, mistake: str) -> str:
    """Write the file with a ``mistake``; return the expression of its message."""
    body, hook, words = MISTAKES[mistake]
    path = outside.write("fedbad", f"class FedBad(FedAvg):\n    {body}\n")
    return f"^{re.escape(str(path))}: FedBad.{hook}: {words}"


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_value_is_refused_with_file_and_hook(tmp_path, outside, mistake):
    message = written(outside, mistake)
    run = simulation(tmp_path, description("fedbad"))
    with pytest.raises(FlatFedError, match=message) as caught:
        run.advance()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("executor", ["sequential", "products"])
def test_every_executor_refuses_it(tmp_path, outside, executor):
    message = written(outside, "correct forgets to return")
    with pytest.raises(FlatFedError, match=message.replace(r"\d, ", r"\d+, ")):
        simulation(tmp_path, description("fedbad"), executor).advance()


def test_a_job_ends_with_one_line_and_leaves_nothing_behind(tmp_path, outside):
    written(outside, "aggregate changes in place as in earlier versions")
    write_problem(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(description("fedbad")))
    environment = {**os.environ, "PYTHONPATH": str(SRC), algorithms.FILES.variable: str(outside.folder)}
    words = [*("train", "--run", "run.json", "--dataset", "data", "--partition", "partition.npz", "--out", "out")]
    command = [sys.executable, "-m", "flatfed", *words, "--device", "cpu"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert f"flatfed train: {outside.folder}/fedbad.py: FedBad.aggregate: returned None" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "out").glob("[!.]*"))


@pytest.mark.parametrize(
    "body",
    [
        'def correct(self, g, w, ctx):\n        ctx.scratch["last"] = g\n        return g',
        'def aggregate(self, server, uploads, ctx):\n        server["w"] = uploads["w"].mean(dim=0, keepdim=True)',
    ],
)
def test_the_mappings_of_a_context_are_read_only(tmp_path, outside, body):
    outside.write("fedbad", f"class FedBad(FedAvg):\n    {body}\n")
    with pytest.raises(TypeError, match="does not support item assignment"):
        simulation(tmp_path, description("fedbad")).advance()


#: Two ways to write an algorithm: functions of the vectors, and changes in place that are returned.
FUNCTIONAL = """
    def start(self, w, ctx):
        return {"first": 0.1 * (w - ctx.client["c"]), "last": ctx.scratch["first"]}

    def perturbation(self, w, gradient, ctx):
        return 0.1 * gradient(w)

    def update_dual(self, e, ctx):
        return {"m": 0.5 * ctx.client["m"] + e}

    def correct(self, g, w, ctx):
        return g + ctx.client["m"] + ctx.scratch["first"]

    def update(self, w, d, ctx):
        return w - ctx.lr * d

    def finish(self, w, ctx):
        return {"c": ctx.client["m"], "m": ctx.client["c"]}, {"part": ctx.client["m"][:, 5:], "w": 2 * w}

    def aggregate(self, server, uploads, ctx):
        mean = uploads["w"].mean(dim=0, keepdim=True) / 2 + uploads["part"].mean()
        return {"old": server["w"], "w": mean + 0.1 * server["old"]}
"""
IN_PLACE = """
    def start(self, w, ctx):
        return {"first": ctx.scratch["first"].copy_(w).sub_(ctx.client["c"]).mul_(0.1)}

    def perturbation(self, w, gradient, ctx):
        return gradient(w).mul_(0.1)

    def update_dual(self, e, ctx):
        return {"m": ctx.client["m"].mul_(0.5).add_(e)}

    def correct(self, g, w, ctx):
        return g.add_(ctx.client["m"]).add_(ctx.scratch["first"])

    def update(self, w, d, ctx):
        return w.sub_(ctx.lr * d)

    def finish(self, w, ctx):
        m, c = ctx.client["m"].clone(), ctx.client["c"].clone()
        return {"c": ctx.client["c"].copy_(m), "m": ctx.client["m"].copy_(c)}, {"part": m[:, 5:], "w": w.mul_(2)}

    def aggregate(self, server, uploads, ctx):
        old = server["w"].clone()
        mean = uploads["w"].mean(dim=0, keepdim=True) / 2 + uploads["part"].mean()
        server["w"].copy_(mean + 0.1 * server["old"])
        return {"w": server["w"], "old": server["old"].copy_(old)}
"""
DECLARED = '    client_state = ("m", "c")\n    server_state = ("old",)\n    scratch = ("first", "last")\n'


@pytest.mark.parametrize("executor", ["sequential", "stacked", "products"])
def test_returned_vectors_and_changes_in_place_are_the_same(tmp_path, outside, executor):
    """Also where a returned vector is the memory of another one, and with fewer rows in later steps."""
    runs = []
    for name, body in (("fedone", FUNCTIONAL), ("fedtwo", IN_PLACE)):
        outside.write(name, f"class {name.title()}(Algorithm):\n{DECLARED}{body}")
        runs.append(simulation(tmp_path, description(name), executor))
        for _ in range(3):
            runs[-1].advance()
    one, two = runs
    for name, values in {**one.server, **one.state.store}.items():
        assert (values - {**two.server, **two.state.store}[name]).abs().max() < 1e-12, name
        assert values.any(), name


def test_a_corrected_gradient_that_is_a_clients_vector_is_clipped_in_a_copy(tmp_path, outside):
    body = 'client_state = ("m",)\n\n    def correct(self, g, w, ctx):\n        return ctx.client["m"].add_(g)'
    outside.write("fedsame", f"class FedSame(FedAvg):\n    {body}\n")
    outside.write("fedcopy", f"class FedCopy(FedAvg):\n    {body}.clone()\n")
    one, other = (simulation(tmp_path, description(name)) for name in ("fedsame", "fedcopy"))
    one.advance(), other.advance()
    assert torch.equal(one.state.store["m"], other.state.store["m"]) and one.state.store["m"].any()


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_a_corrected_gradient_may_repeat_one_number(tmp_path, outside, executor):
    outside.write("fedmean", "class FedMean(FedAvg):\n    def correct(self, g, w, ctx):\n"
        "        return g.mean(dim=1, keepdim=True).expand_as(g)\n")
    run = simulation(tmp_path, description("fedmean", clip_norm=0.1), executor)
    run.advance()
    assert not torch.equal(run.server["w"][0], run.weights.initial)


def test_a_hook_that_an_algorithm_sets_for_itself_is_called(tmp_path, outside):
    text = "class FedSet(FedAvg):\n    def __init__(self):\n        super().__init__()\n        self.correct = "
    outside.write("fedset", f"{text}lambda g, w, ctx: 2 * g\n")
    runs = [simulation(tmp_path, description(name, clip_norm=None)) for name in ("fedset", "fedavg")]
    for run in runs:
        run.advance()
    assert not torch.equal(runs[0].server["w"], runs[1].server["w"])


@pytest.mark.parametrize("executor", ["sequential", "stacked", "products"])
def test_every_executor_refuses_a_step_that_draws(tmp_path, outside, executor):
    body = "def correct(self, g, w, ctx):\n        return g * ctx.uniform(0, (1,))"
    outside.write("fedbad", f"class FedBad(FedAvg):\n    {body}\n")
    with pytest.raises(FlatFedError, match=r"ctx\.uniform: a local step may not draw; draw in `start`"):
        simulation(tmp_path, description("fedbad"), executor).advance()


@pytest.mark.parametrize(
    ("body", "generator"),
    [
        ('def start(self, w, ctx):\n        w.mul_(__import__("torch").rand(()))\n        return {}', "torch's"),
        ('def finish(self, w, ctx):\n        __import__("numpy").random.rand()\n        return {}, {}', "NumPy's"),
        ('def aggregate(self, server, uploads, ctx):\n        return {"w": server["w"].clone().normal_()}', "torch's"),
    ],
)
def test_a_job_refuses_random_numbers_of_a_hooks_own_after_its_first_round(tmp_path, outside, body, generator):
    outside.write("fedbad", f"class FedBad(FedAvg):\n    {body}\n")
    run = simulation(tmp_path, description("fedbad"))
    message = rf"^algorithm FedBad or model \w+ draws from {generator} generator.*; expected: ctx\.uniform in a hook"
    with pytest.raises(FlatFedError, match=message), first_round.checked(run):
        run.advance()
