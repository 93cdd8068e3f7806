"""Vectors that an algorithm's bases declare: joined along the inheritance, each once, and trained as declared."""

import pytest
import torch

from flatfed import algorithms
from flatfed.errors import ConfigError
from harness import Reference, description, simulation

BOTH = '''
class Anchored(FedAvg):  # local steps are pulled towards the model that the client ended with when it last took part
    client_state = ("anchor",)
    scratch = ("pull",)
    def start(self, w, ctx):
        return {**super().start(w, ctx), "pull": 0.3 * (w - ctx.client["anchor"])}
    def correct(self, g, w, ctx):
        return super().correct(g, w, ctx).add_(ctx.scratch["pull"])
    def finish(self, w, ctx):
        state, uploads = super().finish(w, ctx)
        return {**state, "anchor": w}, uploads
class Heavy(Algorithm):  # momentum in the local steps; clients count their rounds
    client_state = ("rounds",)
    scratch = ("last",)
    def correct(self, g, w, ctx):
        return ctx.scratch["last"].mul_(0.5).add_(super().correct(g, w, ctx)).clone()
    def finish(self, w, ctx):
        state, uploads = super().finish(w, ctx)
        return {**state, "rounds": ctx.client["rounds"] + 1}, uploads
class FedBoth(Heavy, Anchored):
    pass
'''


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_an_outside_algorithm_of_two_with_state_trains_as_by_hand(tmp_path, outside, executor):
    """By plain loops over clients and steps."""
    outside.write("fedboth", BOTH)
    kind = algorithms.load("fedboth")
    assert (kind.client_state, kind.scratch) == (("anchor", "rounds"), ("pull", "last"))
    spec = description("fedboth", rounds=5, clip_norm=None, weight_decay=0.0, learning_rate_decay=1.0)
    run, problem = simulation(tmp_path, spec, executor), Reference(tmp_path, spec)
    w, rounds = problem.w, torch.zeros(problem.m, 1)
    anchors = w.new_zeros(problem.m, len(w))
    for round_ in range(5):
        active = run.sample()
        for client in active:
            x, pull, last = w.clone(), 0.3 * (w - anchors[client]), 0.0
            for index in problem.batches(client, round_):
                last = problem.gradient(x, index) + pull + 0.5 * last
                x = x - 0.2 * last
            anchors[client] = x
        rounds[active] += 1
        w = anchors[active].mean(dim=0)
        run.advance()
    assert (run.server["w"][0] - w).abs().max() < 1e-12
    assert (run.state.store["anchor"] - anchors).abs().max() < 1e-12
    assert (run.state.store["rounds"] == rounds).all() and rounds.max() > 1


def test_the_order_is_that_of_the_bases_and_every_name_is_there_once():
    feddyn = algorithms.load("feddyn")
    again = type("Again", (feddyn,), {"client_state": ("h", "mu"), "scratch": ("v",)})
    assert again.client_state == ("h", "mu") and again.server_state == ("h",) and again.scratch == ("pull", "v")
    plain = type("Plain", (), {"scratch": ("own",)})
    assert type("Mixed", (plain, feddyn), {}).scratch == ("pull", "own")


TWO = 'class One(Algorithm):\n    scratch = ("e",)\n\n\nclass Two(Algorithm):\n    scratch = ("e",)\n\n\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('class Odd(FedAvg):\n    scratch = "velocity"\n', "scratch is 'velocity'; expected: a tuple"),
        ('class Odd(FedAvg):\n    server_state = ("w",)\n', "server_state may not have 'w'"),
        ("class Odd(FedAvg):\n    @property\n    def scratch(self):\n        pass\n", "scratch is <property"),
        (f"{TWO}class Odd(One, Two):\n    pass\n", "scratch: One and Two both have a vector 'e'"),
        (f'{TWO}class Odd(One, Two):\n    scratch = ("e",)\n', None),  # the class says that they share it
    ],
    ids=["a string", "taken", "a property", "of two", "shared"],
)
def test_impossible_state_is_refused_when_the_file_is_loaded(outside, text, message):
    path = outside.write("odd", text)
    if message is None:
        assert algorithms.load("odd").scratch == ("e",)
    else:
        with pytest.raises(ConfigError, match=rf"^{path}: line \d+: algorithm Odd: {message}"):
            algorithms.load("odd")
