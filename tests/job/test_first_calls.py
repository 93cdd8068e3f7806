"""A hook that returns a wrong value, or writes what nothing reads, is refused before the first round by name."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from flatfed import algorithms
from flatfed.errors import FlatFedError
from harness import description, simulation, write_problem

SRC = Path(__file__).parents[2] / "src"
PEERS = {"topology": {"graph": "ring"}, "sampling": {"scheme": "all"}}
MEAN = 'uploads["w"].mean(dim=0, keepdim=True)'
MODEL = r"a tensor of shape \(1, \d+\), float64 on cpu"
ROWS = r"a tensor of shape \(\d, \d+\), float64 on cpu"
NOTHING = "; expected: nothing: hooks change vectors in place"

#: What is wrong -> (base, body of a class FedBad, the hook that the message names, what it says after it).
SLIPS = {
    "aggregate returns the model": (
        "FedAvg",
        f"def aggregate(self, server, uploads, ctx):\n        return {MEAN}",
        "aggregate",
        f"returned {MODEL}{NOTHING}",
    ),
    "update returns the model": (
        "FedAvg",
        "def update(self, w, d, ctx):\n        return w - ctx.lr * d",
        "update",
        f"returned {ROWS}{NOTHING}",
    ),
    "update binds a name": (
        "FedAvg",
        "def update(self, w, d, ctx):\n        w = w - ctx.lr * d",
        "update",
        r"left w as it was; expected: w changed in place, as by w.sub_\(...\)",
    ),
    "aggregate draws from torch's generator": (
        "FedAvg",
        'def aggregate(self, server, uploads, ctx):\n        server["w"].normal_()',
        "aggregate",
        "draws from torch's generator, whose values depend on earlier draws; expected: ctx.uniform",
    ),
    "update draws from NumPy's generator": (
        "FedAvg",
        "def update(self, w, d, ctx):\n        w.sub_(ctx.lr * d * float(__import__('numpy').random.rand()))",
        "update",
        "draws from NumPy's generator",
    ),
    "start returns": ("FedAvg", "def start(self, w, ctx):\n        return w", "start", f"returned {ROWS}{NOTHING}"),
    "correct forgets to return": (
        "FedAvg",
        "def correct(self, g, w, ctx):\n        g.mul_(2)",
        "correct",
        f"returned None; expected: {ROWS}",
    ),
    "correct has one row for all": (
        "FedAvg",
        "def correct(self, g, w, ctx):\n        return g.mean(dim=0, keepdim=True)",
        "correct",
        f"returned {MODEL}; expected: {ROWS}",
    ),
    "correct has another type": (
        "FedAvg",
        "def correct(self, g, w, ctx):\n        return g.float()",
        "correct",
        r"returned a tensor of shape \(\d, \d+\), float32 on cpu; expected: a tensor of shape \(\d, \d+\), float64",
    ),
    "perturbation has no rows": (
        "FedAvg",
        "def perturbation(self, w, gradient, ctx):\n        return gradient(w).mean(dim=0)",
        "perturbation",
        rf"returned a tensor of shape \(\d+,\), float64 on cpu; expected: {ROWS} or None",
    ),
    "correct returns a vector of the client": (
        "FedAvg",
        'client_state = ("m",)\n\n    def correct(self, g, w, ctx):\n        return ctx.client["m"].add_(g)',
        "correct",
        f"returned {ROWS}; expected: a new tensor, because the engine clips it in place",
    ),
    "perturbation is a number": (
        "FedAvg",
        "def perturbation(self, w, gradient, ctx):\n        return 0.1",
        "perturbation",
        f"returned 0.1; expected: {ROWS} or None",
    ),
    "finish forgets to return": (
        "FedAvg",
        "def finish(self, w, ctx):\n        pass",
        "finish",
        r"returned None; expected: a dict of names and tensors of shape \(\d, any\)",
    ),
    "finish uploads a mean": (
        "FedAvg",
        'def finish(self, w, ctx):\n        return {"delta": w.mean(dim=0)}',
        "finish",
        r"returned a dict \('delta': a tensor of shape \(\d+,\), float64 on cpu\); expected: a dict of names",
    ),
    "aggregate copies all rows into one": (
        "FedAvg",
        'def aggregate(self, server, uploads, ctx):\n        server["w"].copy_(uploads["w"])',
        "aggregate",
        "failed in line 8: RuntimeError: .*shape",
    ),
    "aggregate binds the model anew": (
        "FedAvg",
        f'def aggregate(self, server, uploads, ctx):\n        server["w"] = {MEAN}',
        "aggregate",
        r"bound server\['w'\] to another tensor; expected: server\['w'\].copy_\(...\), in place",
    ),
    "aggregate keeps what was not declared": (
        "FedAvg",
        f'def aggregate(self, server, uploads, ctx):\n        server["velocity"] = {MEAN}',
        "aggregate",
        r"made server\['velocity'\]; expected: 'velocity' declared in server_state of the class",
    ),
    "a client's vector is bound anew": (
        "FedAvg",
        'client_state = ("c",)\n\n    def finish(self, w, ctx):\n        ctx.client["c"] = 2 * w\n        return {}',
        "finish",
        r"bound client\['c'\] to another tensor",
    ),
    "scratch is not declared": (
        "FedAvg",
        'def correct(self, g, w, ctx):\n        ctx.scratch["last"] = g.clone()\n        return g',
        "correct",
        r"made scratch\['last'\]; expected: 'last' declared in scratch of the class",
    ),
    "state is read that was not declared": (
        "FedAvg",
        'def correct(self, g, w, ctx):\n        return g + ctx.server["velocity"]',
        "correct",
        "failed in line 8: KeyError: 'velocity'",
    ),
    "evaluated is a tensor": (
        "FedAvg",
        'def evaluated(self, server):\n        return server["w"]',
        "evaluated",
        f"returned {MODEL}; expected: a dict of names and models, at least one, each {MODEL}",
    ),
    "evaluated is empty": (
        "FedAvg",
        "def evaluated(self, server):\n        return {}",
        "evaluated",
        r"returned a dict \(empty\); expected: a dict of names and models",
    ),
    "evaluated has no rows": (
        "FedAvg",
        'def evaluated(self, server):\n        return {"server": server["w"][0]}',
        "evaluated",
        r"returned a dict \('server': a tensor of shape \(\d+,\), float64 on cpu\); expected",
    ),
    "proximal forgets to return": (
        "FedAvg",
        "@property\n    def proximal(self):\n        0.1",
        "proximal",
        "returned None; expected: a number",
    ),
    "private_size forgets to return": (
        "FedAvg",
        "def private_size(self, image_shape):\n        image_shape[0]",
        "private_size",
        "returned None; expected: a whole number from 0 up",
    ),
    "transform loses an axis": (
        "FedAvg",
        "def private_size(self, image_shape):\n        return 1\n\n"
        "    def transform(self, images, private):\n        return images[0] + private",
        "transform",
        r"returned a tensor of shape \(1, 8, 8\), float64 on cpu; expected: a tensor of shape \(2, 1, 8, 8\)",
    ),
    "begin returns": (
        "DFedAvg",
        "def begin(self, models, ctx):\n        return 2 * models",
        "begin",
        f"returned {ROWS}{NOTHING}",
    ),
    "mix returns": (
        "DFedAvg",
        "def mix(self, models, mixing, ctx):\n        return mixing(0) @ models",
        "mix",
        f"returned {ROWS}{NOTHING}",
    ),
    "mix copies what does not fit": (
        "DFedAvg",
        "def mix(self, models, mixing, ctx):\n        models.copy_(mixing(0))",
        "mix",
        "failed in line 8: RuntimeError: ",
    ),
}


def written(outside, slip: str) -> tuple[Path, str]:
    """Write the file with ``slip``; return its path and what its message is."""
    base, body, hook, words = SLIPS[slip]
    path = outside.write("fedbad", f"class FedBad({base}):\n    {body}\n")
    return path, f"{re.escape(str(path))}: FedBad.{hook} {words}"


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_refused_before_the_first_round_with_file_and_hook(tmp_path, outside, slip):
    _, message = written(outside, slip)
    changes = PEERS if SLIPS[slip][0] == "DFedAvg" else {}
    with pytest.raises(FlatFedError, match=f"^{message}") as caught:
        simulation(tmp_path, description("fedbad", **changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("executor", ["sequential", "products"])
def test_it_is_refused_by_every_executor(tmp_path, outside, executor):
    _, message = written(outside, "correct forgets to return")
    with pytest.raises(FlatFedError, match=f"^{message}"):
        simulation(tmp_path, description("fedbad"), executor)


def test_a_job_ends_with_one_line_and_leaves_nothing_behind(tmp_path, outside):
    path, _ = written(outside, "aggregate returns the model")
    write_problem(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(description("fedbad")))
    environment = {**os.environ, "PYTHONPATH": str(SRC), algorithms.FILES.variable: str(outside.folder)}
    words = [*("train", "--run", "run.json", "--dataset", "data", "--partition", "partition.npz", "--out", "out")]
    command = [sys.executable, "-m", "flatfed", *words, "--device", "cpu"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert f"flatfed train: {path}: FedBad.aggregate returned a tensor" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "out").glob("[!.]*"))


#: What may look like a slip to a rehearsal: body of a class FedGood.
RIGHT = {
    "anneals over the rounds": (
        "def start(self, w, ctx):\n        self.share = ctx.round / (ctx.rounds - 1)\n        assert self.share < 1"
    ),
    "takes the best two uploads of three": (
        'def aggregate(self, server, uploads, ctx):\n        w = uploads["w"]\n'
        "        rows = w.norm(dim=1).topk(min(3, len(w))).indices[:2]\n"
        '        server["w"].copy_(w[rows].mean(dim=0, keepdim=True))'
    ),
    "does not move at first": "def update(self, w, d, ctx):\n        w.addcmul_(d, ctx.lr, value=-ctx.round)",
    "counts its rounds": (
        "rounds = 0\n\n    def aggregate(self, server, uploads, ctx):\n        assert self.rounds == ctx.round\n"
        "        self.rounds += 1\n        super().aggregate(server, uploads, ctx)"
    ),
    "draws at the start": (
        'scratch = ("noise",)\n\n    def start(self, w, ctx):\n'
        '        ctx.scratch["noise"].copy_(ctx.uniform(0, (w.shape[1],)))'
    ),
}


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_the_rehearsal_refuses_nothing_that_trains(tmp_path, outside, body):
    outside.write("fedgood", f"class FedGood(FedAvg):\n    {body}\n")
    run = simulation(tmp_path, description("fedgood"))
    assert run.advance() and run.advance()


@pytest.mark.parametrize("executor", ["sequential", "stacked", "products"])
def test_a_step_that_draws_is_refused_by_every_executor(tmp_path, outside, executor):
    outside.write(
        "fedbad", "class FedBad(FedAvg):\n    def correct(self, g, w, ctx):\n        return g * ctx.uniform(0, (1,))\n"
    )
    with pytest.raises(FlatFedError, match=r"ctx\.uniform: a local step may not draw; draw in `start`"):
        simulation(tmp_path, description("fedbad"), executor)


def test_memory_that_runs_out_in_the_rehearsal_is_no_slip(tmp_path, outside):
    """A round may need less."""
    outside.write(
        "fedbig",
        "class FedBig(FedAvg):\n    calls = 0\n\n    def start(self, w, ctx):\n        FedBig.calls += 1\n"
        "        if FedBig.calls == 1:\n            raise MemoryError\n",
    )
    run = simulation(tmp_path, description("fedbig"))
    run.advance()
    plain = simulation(tmp_path, description("fedavg"))
    plain.advance()
    assert torch.equal(run.server["w"], plain.server["w"])


def test_a_hook_that_an_algorithm_sets_for_itself_is_looked_at_and_kept(tmp_path, outside):
    text = (
        "class FedSet(FedAvg):\n    def __init__(self, **values):\n        super().__init__(**values)\n"
        "        self.correct = self._doubled\n\n    def _doubled(self, g, w, ctx):\n        return {}\n"
    )
    outside.write("fedset", text.format("g.mul_(2)"))
    run = simulation(tmp_path, description("fedset", clip_norm=None))
    run.advance()
    plain = simulation(tmp_path, description("fedavg", clip_norm=None))
    plain.advance()
    assert run.algorithm.correct == run.algorithm._doubled
    assert not torch.equal(run.server["w"], plain.server["w"])


def test_a_write_that_autograd_does_not_see_counts(tmp_path, outside):
    outside.write("feddata", "class FedData(FedAvg):\n    def update(self, w, d, ctx):\n        w.data -= ctx.lr * d\n")
    runs = [simulation(tmp_path, description(name)) for name in ("feddata", "fedavg")]
    for run in runs:
        run.advance()
    assert (runs[0].server["w"] - runs[1].server["w"]).abs().max() < 1e-12
