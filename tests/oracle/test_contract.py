"""The contract that every registered algorithm keeps, in float64 with clip, decay, ragged batches, unequal clients."""

from __future__ import annotations

from operator import itemgetter

import pytest
import torch
from claims import CLAIMS, REDUCTIONS, Reduction

from flatfed import algorithms
from flatfed.engine.checks import contract
from flatfed.errors import FlatFedError
from harness import SIZES, description, needs, weights, write_problem
from samples import ALGORITHMS, FEW, sampled

NAMES = algorithms.names()


def rho(name: str) -> dict:
    """Return a radius that matters, for algorithms with one."""
    return {"rho": 0.3} if "rho" in algorithms.load(name).parameters() else {}


def reductions(name: str) -> list[Reduction]:
    """Return the claimed reductions of an algorithm; with one client it may be a centralised one."""
    central = CLAIMS[name].one_client
    alone = [Reduction(rho(name), central, rho(central), when=needs(central))] if central else []
    return [*CLAIMS[name].reductions, *alone]


CLAIMED = [(name, claim) for name in NAMES for claim in reductions(name)]
SAMPLE = [case for case in CLAIMED if case[0] in ALGORITHMS]


def test_five_algorithms_are_no_other_ones_special_case():
    """Their claim is where they end (test_contract_quadratic)."""
    assert {*NAMES} - REDUCTIONS.keys() == {"fedavg", "feddyn", "fedadam", "fedgmt", "fedwmsam"}


@pytest.mark.parametrize("executor", sampled(["sequential", "stacked", "products"], ["stacked"]))
@pytest.mark.parametrize("case", sampled(CLAIMED, SAMPLE), ids=itemgetter(0))
def test_reductions(tmp_path, case, executor):
    name, claim = case
    changes = {**needs(claim.to), **needs(name), **claim.when}
    write_problem(tmp_path, [sum(SIZES)] if changes.get("partition", {}).get("clients") == 1 else SIZES)
    pair = (name, dict(claim.params)), (claim.to, dict(claim.to_params))
    one, other = (weights(tmp_path, description(*algorithm, **changes), executor) for algorithm in pair)
    assert (one - other).abs().max() < 1e-12


@pytest.mark.parametrize("name", sampled(NAMES, FEW))
def test_check_passes(name):
    """`flatfed check NAME`: the contract that a user's algorithm keeps."""
    sentences = [sentence for sentence in contract.check(name) if not sentence.startswith("hint: ")]
    assert len(sentences) == 5 + algorithms.build(name, {}).keeps_rows_whole() + torch.cuda.is_available()


AGGREGATE = "def aggregate(self, server, uploads, ctx):\n        "
MEAN = "uploads['w'].mean(dim=0, keepdim=True)"
FIRST = f"""first = None

    {AGGREGATE}self.first = {MEAN} if self.first is None else self.first
        return {{'w': self.first}}"""
MOMENT = f"""v = 0

    {AGGREGATE}step = uploads['w'].mean(dim=0, keepdim=True) - server['w']
        self.v = 0.9 * self.v + 0.1 * step**2
        return {{'w': server['w'] + 0.01 * step / (self.v.sqrt() + 1e-8)}}"""
CHANGES = "server vector 'w' changes by .* with "

#: Mistake -> (body of a class FedBad(FedAvg), the message).
MISTAKES = {
    "nothing": (f"{AGGREGATE}return {{'w': server['w']}}", "the model does not change"),
    "the first client": (f"{AGGREGATE}return {{'w': uploads['w'][:1]}}", f"{CHANGES}clients in another order"),
    "rows": ("def correct(self, g, w, ctx):\n        return g * len(g)", f"{CHANGES}all clients at once"),
    "an attribute": (FIRST, f"{CHANGES}an interruption: state in an attribute is lost"),
    "a little of the rows": ("def correct(self, g, w, ctx):\n        return g * (1 + 1e-5 * len(g))", f"{CHANGES}all"),
    "Adam's moment in an attribute": (MOMENT, "returns other numbers for the same values the second time"),
    "infinite": ("def correct(self, g, w, ctx):\n        return g / 0", "not finite after 4 rounds"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_check_names_the_mistake(outside, mistake):
    body, message = MISTAKES[mistake]
    path = outside.write("fedbad", f"class FedBad(FedAvg):\n    {body}\n")
    with pytest.raises(FlatFedError, match=message) as caught:
        list(contract.check("fedbad"))
    assert str(caught.value).startswith(f"{path}: ")


#: Adam (Kingma & Ba 2015, Alg. 1) in the local steps, its moments in vectors of the client.
ADAM = """class LocalAdam(FedAvg):
    counts_steps = True
    client_state = ("m", "v")

    def update(self, w, d, ctx):
        m = ctx.client["m"].mul_(0.9).add_(0.1 * d)
        v = ctx.client["v"].mul_(0.999).add_(0.001 * d * d)
        t = ctx.step + 1
        return w - ctx.lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
"""


def test_check_passes_adam_in_the_local_steps(outside):
    """It divides by small numbers, which amplifies rounding."""
    outside.write("local_adam", ADAM)
    assert len(list(contract.check("local_adam"))) == 5


SCALED = """class FedScaled(FedAvg):
    factor = Number(1.0, "power of the number of rows, which changes with the grouping of clients")

    def correct(self, g, w, ctx):
        return g * len(g) ** (self.factor - 1)
"""


def test_the_command_checks_an_algorithm_with_parameters(outside, call):
    path = outside.write("fedscaled", SCALED)
    assert call("check", "fedscaled", "--set", "factor=1.0")[0] == 0
    status, _, text = call("check", "fedscaled", "--set", "factor=2")
    assert status == 2 and f"{path}: server vector 'w' changes by" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fedsmoo", "--set", "rh=0.1"), "algorithm FedSMOO: unknown parameter 'rh'; did you mean 'rho'?"),
        (("fedsmoo", "--set", "rho=-1"), "algorithm FedSMOO: rho: -1 must be at least 0"),
        (("fedsmoo", "--set", "rho=[1"), "--set: rho=[1: not YAML"),
        (("--set", "rho=0.1"), "--set rho=0.1: changes a parameter of an algorithm; name the algorithm"),
    ],
)
def test_the_command_refuses_a_wrong_parameter(words, message, call):
    status, _, text = call("check", *words)
    assert status == 2 and message in text


IDLE = """class FedIdle(FedAvg):
    alpha = Number(0.1, "no method reads it")
    client_state = ("c",)
"""


def test_the_command_prints_a_line_per_condition_and_hints(outside, call):
    outside.write("fedidle", IDLE)
    status, output, _ = call("check", "fedidle")
    assert status == 0 and output.count("fedidle: ") == len(output.splitlines()) == 8
    assert output.splitlines()[5:] == [
        "fedidle: hint: client vector 'c' is declared and stays 0",
        "fedidle: hint: overrides no hook, so with equal parameters it is FedAvg under another name",
        "fedidle: hint: no method reads its parameter 'alpha'",
    ]
