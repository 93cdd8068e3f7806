"""Vectors that an algorithm's bases declare: joined along the inheritance, each once, and trained as declared."""

import pytest
import torch

from flatfed import algorithms
from flatfed.engine.sampling import active_clients
from flatfed.errors import ConfigError
from flatfed.runs.run_config import SamplingSettings
from harness import Reference, advanced, description, simulation

PULL, KEPT, SERVER = 0.3, 0.5, 0.9
BOTH = f'''
class Anchored(FedAvg):
    """Local steps are pulled towards the model that the client ended with when it last took part."""

    client_state = ("anchor",)
    scratch = ("pull",)

    def start(self, w, ctx):
        return {{**super().start(w, ctx), "pull": {PULL} * (w - ctx.client["anchor"])}}

    def correct(self, g, w, ctx):
        return super().correct(g, w, ctx).add_(ctx.scratch["pull"])

    def finish(self, w, ctx):
        state, uploads = super().finish(w, ctx)
        return {{**state, "anchor": w}}, uploads


class Heavy(Algorithm):
    """Momentum in the local steps and at the server; clients count their rounds."""

    client_state = ("rounds",)
    server_state = ("velocity",)
    scratch = ("last",)

    def correct(self, g, w, ctx):
        g = super().correct(g, w, ctx).add_(ctx.scratch["last"], alpha={KEPT})
        ctx.scratch["last"].copy_(g)
        return g

    def finish(self, w, ctx):
        state, uploads = super().finish(w, ctx)
        return {{**state, "rounds": ctx.client["rounds"] + 1}}, uploads

    def aggregate(self, server, uploads, ctx):
        mean = super().aggregate(server, uploads, ctx)["w"]
        velocity = {SERVER} * server["velocity"] + mean - server["w"]
        return {{"w": server["w"] + velocity, "velocity": velocity}}


class FedBoth(Heavy, Anchored):
    """Both, of which each class declares its own vectors alone."""
'''


def by_hand(folder, spec: dict) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the model, the clients' anchors and their rounds, by plain loops over clients and steps."""
    problem = Reference(folder, spec)
    w, velocity = problem.w.clone(), torch.zeros_like(problem.w)
    anchors, rounds = w.new_zeros(problem.m, len(w)), w.new_zeros(problem.m, 1)
    for round_ in range(spec["rounds"]):
        rate = spec["learning_rate"] * spec["learning_rate_decay"] ** round_
        active = active_clients(SamplingSettings(**spec["sampling"]), problem.m, spec["seed"], round_)
        for client in active:
            x, pull, last = w.clone(), PULL * (w - anchors[client]), torch.zeros_like(w)
            for index in problem.batches(client, round_):
                last = problem.gradient(x, index) + pull + KEPT * last
                clipped = last * min(1.0, spec["clip_norm"] / (float(last.norm()) + 1e-6))
                x = x - rate * (clipped + spec["weight_decay"] * x)
            anchors[client] = x
            rounds[client] += 1
        velocity = SERVER * velocity + anchors[active].mean(dim=0) - w
        w = w + velocity
    return w, anchors, rounds


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_an_outside_algorithm_of_two_with_state_trains_as_by_hand(tmp_path, outside, executor):
    outside.write("fedboth", BOTH)
    kind = algorithms.load("fedboth")
    assert (kind.client_state, kind.server_state) == (("anchor", "rounds"), ("velocity",))
    assert kind.scratch == ("pull", "last") and kind().stored_vectors() == 3
    spec = description("fedboth", rounds=5)
    run = simulation(tmp_path, spec, executor)
    advanced(run, spec["rounds"])
    w, anchors, rounds = by_hand(tmp_path, spec)
    assert (run.server["w"][0] - w).abs().max() < 1e-12
    assert (run.state.store["anchor"] - anchors).abs().max() < 1e-12
    assert (run.state.store["rounds"] == rounds).all() and rounds.max() > 1


def test_the_order_is_that_of_the_bases_and_every_name_is_there_once():
    feddyn = algorithms.load("feddyn")
    again = type("Again", (feddyn,), {"client_state": ("h", "mu"), "scratch": ("v",)})
    assert again.client_state == ("h", "mu") and again.server_state == ("h",) and again.scratch == ("pull", "v")
    left, right = (type(name, (feddyn,), {"scratch": (name,)}) for name in ("left", "right"))
    assert type("Diamond", (left, right), {}).scratch == ("pull", "right", "left")
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
        with pytest.raises(ConfigError, match=f"^{path}: algorithm Odd: {message}"):
            algorithms.load("odd")
