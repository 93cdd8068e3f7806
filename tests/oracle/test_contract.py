"""The contract that every registered algorithm keeps, in float64 with clip, decay, ragged batches, unequal clients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from claims import CLAIMS
from exact import TOLERANCE, gap

from flatfed import algorithms, cli
from flatfed.data.streams import stream
from flatfed.engine import batches, dropout
from flatfed.engine import simulation as simulations
from flatfed.engine.checks import contract
from flatfed.engine.sampling import active_clients
from flatfed.engine.topology import Topology
from flatfed.errors import FlatFedError
from flatfed.runs.run_config import SamplingSettings
from harness import SIZES, description, needs, simulation, sizes, weights, write_problem
from samples import sampled

NAMES = algorithms.names()
FEDERATED = [name for name in NAMES if not algorithms.load(name).central]
REDUCTIONS = [
    pytest.param(name, reduction, id=f"{name}-{reduction.to}-{number}")
    for name in NAMES
    for number, reduction in enumerate(CLAIMS[name].reductions)
]
EXECUTORS = pytest.mark.parametrize("executor", sampled(["sequential", "stacked", "products"], ["stacked"]))
FEW = {"scheme": "fixed", "fraction": 1 / 3, "sampler": "keyed"}
ORDER = np.array([3, 0, 5, 1, 4, 2])  # the client that stands at each place after the permutation


def rho(name: str) -> dict:
    """Return a radius that matters, for algorithms with one."""
    return {"rho": 0.3} if "rho" in algorithms.load(name).parameters() else {}


@pytest.mark.parametrize("name", NAMES)
def test_claims_something(name):
    """Four are no other algorithm's special case: theirs is where they end (test_contract_quadratic)."""
    claims = CLAIMS[name]
    assert claims.reductions or name in ("fedavg", "feddyn", "fedadam", "fedgmt", "fedwmsam")
    assert claims.one_client or name not in ("fedavg", "scaffold", "fedsam", "fedgamma")


def neutral(reduction) -> set[str]:
    """Return the parameters that a reduction sets beyond the other algorithm's own."""
    return set(reduction.params) - set(reduction.to_params)


def difference(folder, one, other, executor="stacked", **changes) -> float:
    """Return how far the models of two algorithms, with their parameters, are apart after a run."""
    models = [weights(folder, description(*algorithm, **changes), executor) for algorithm in (one, other)]
    return gap(*models)


def settings(name, reduction):
    return {**needs(reduction.to), **needs(name), **reduction.when}


@EXECUTORS
@pytest.mark.parametrize(("name", "reduction"), REDUCTIONS)
def test_reductions(tmp_path, name, reduction, executor):
    changes = settings(name, reduction)
    write_problem(tmp_path, [sum(SIZES)] if changes.get("partition", {}).get("clients") == 1 else SIZES)
    pair = (name, dict(reduction.params)), (reduction.to, dict(reduction.to_params))
    assert difference(tmp_path, *pair, executor, **changes) < TOLERANCE


@pytest.mark.parametrize(("name", "reduction"), [case for case in REDUCTIONS if neutral(case.values[1])])
def test_other_parameters_do_not_reduce(tmp_path, name, reduction):
    """With its neutral parameters at their defaults (or a radius that matters) it is not the other algorithm."""
    declared = algorithms.load(name).parameters()
    effective = {key: 0.3 if key == "rho" else declared[key].default for key in neutral(reduction)}
    write_problem(tmp_path, sizes(name))
    pair = (name, {**reduction.params, **effective}), (reduction.to, dict(reduction.to_params))
    assert difference(tmp_path, *pair, **{"rounds": 2, **settings(name, reduction)}) > 1e-5


@EXECUTORS
@pytest.mark.parametrize("name", [name for name in NAMES if CLAIMS[name].one_client])
def test_alone_it_is_centralised(tmp_path, name, executor):
    central = CLAIMS[name].one_client
    write_problem(tmp_path, sizes(central))
    pair = (name, rho(name)), (central, rho(central))
    assert difference(tmp_path, *pair, executor, **needs(central)) < TOLERANCE


def permuted(folder, monkeypatch, spec: dict, executor: str):
    """Return the run in which place k is taken by client ORDER[k], with its data, keys, turns and neighbours."""
    place = np.argsort(ORDER)

    def moved_stream(seed, purpose, *key):
        assert purpose in ("batches", "augmentation", "dropout", "algorithm"), "keyed by (round, client, ...)"
        return stream(seed, purpose, key[0], int(ORDER[key[1]]), *key[2:])

    def moved_clients(*arguments):
        return np.sort(place[active_clients(*arguments)])

    class MovedTopology(Topology):
        def mixing(self, round_, step=0):
            return super().mixing(round_, step)[np.ix_(ORDER, ORDER)]

    for module in (batches, dropout, simulations):
        monkeypatch.setattr(module, "stream", moved_stream)
    monkeypatch.setattr("flatfed.engine.simulation.active_clients", moved_clients)
    monkeypatch.setattr("flatfed.engine.peers.Topology", MovedTopology)
    run = simulation(folder, spec, executor)
    run.members, run.sizes = [run.members[client] for client in ORDER], run.sizes[ORDER]
    return run


@EXECUTORS
@pytest.mark.parametrize("name", sampled(FEDERATED))
def test_permuting_clients_changes_nothing(tmp_path, monkeypatch, name, executor):
    spec = description(name, rho(name), **needs(name))
    if "topology" in spec:
        spec["topology"] = {"graph": "neighbours", "neighbours": 2}  # drawn anew every round, and not symmetric
    run = simulation(tmp_path, spec, executor)
    with monkeypatch.context() as patch:
        other = permuted(tmp_path, patch, spec, executor)
        for _ in range(3):
            other.advance()
    for _ in range(3):
        run.advance()
    assert gap(run.server["w"], other.server["w"]) < TOLERANCE
    for key, values in run.state.store.items():
        assert gap(values[ORDER], other.state.store[key]) < TOLERANCE, key


@EXECUTORS
@pytest.mark.parametrize("name", sampled(FEDERATED))
def test_data_of_a_client_that_never_takes_part_changes_no_byte(tmp_path, name, executor):
    spec = description(name, rho(name), **{**needs(name), "sampling": FEW}, rounds=2)
    active = {int(i) for t in range(2) for i in active_clients(SamplingSettings(**FEW), len(SIZES), spec["seed"], t)}
    idle = min(set(range(len(SIZES))) - active)
    found = []
    for changed in (None, idle, min(active)):
        run = simulation(tmp_path, spec, executor)
        if changed is not None:
            own = run.members[changed]
            images, labels = run.data.images.clone(), run.data.labels.clone()
            images[own], labels[own] = 255 - images[own], (labels[own] + 1) % 3
            run.data.images, run.data.labels = images, labels
        for _ in range(2):
            run.advance()
        found.append([run.server["w"], *run.state.store.values()])
    before, without, within = found
    assert all(torch.equal(a, b) for a, b in zip(before, without, strict=True))
    assert gap(before[0], within[0]) > 1e-4, "data of a client that took part must matter"


@EXECUTORS
@pytest.mark.parametrize("name", sampled(NAMES))
def test_shapes_and_dtypes_are_stable(tmp_path, name, executor):
    write_problem(tmp_path, sizes(name))
    run = simulation(tmp_path, description(name, rho(name), **needs(name), precision="float32"), executor)

    def form():
        vectors = {**run.server, **{f"client {key}": value for key, value in run.state.store.items()}}
        return {key: (value.shape, value.dtype) for key, value in vectors.items()}

    start = form()
    assert {dtype for _, dtype in start.values()} == {torch.float32}
    for _ in range(3):
        run.advance()
    assert form() == start
    assert all(value.isfinite().all() for value in (*run.server.values(), *run.state.store.values()))


@pytest.mark.parametrize("name", sampled(NAMES))
def test_check_passes(name):
    """`flatfed check NAME`: the contract that a user's algorithm keeps."""
    sentences = [sentence for sentence in contract.check(name) if not sentence.startswith("hint: ")]
    assert len(sentences) == 5


AGGREGATE = "def aggregate(self, server, uploads, ctx):\n        "
COUNTS = f"seen = 0\n\n    {AGGREGATE}self.seen += 1\n        return {{'w': server['w'] / self.seen}}"
DRAWS = "def start(self, w, ctx):\n        w.mul_(__import__('torch').rand(()))\n        return {}"
CHANGES = "server vector 'w' changes by .* with "

#: Mistake -> (body of a class FedBad(FedAvg), the message).
MISTAKES = {
    "nothing": (f"{AGGREGATE}return {{'w': server['w']}}", "the model does not change"),
    "the first client": (f"{AGGREGATE}return {{'w': uploads['w'][:1]}}", f"{CHANGES}clients in another order"),
    "rows": ("def correct(self, g, w, ctx):\n        return g * len(g)", f"{CHANGES}all clients at once"),
    "an attribute": (COUNTS, f"{CHANGES}an interruption: state in an attribute is lost"),
    "infinite": ("def correct(self, g, w, ctx):\n        return g / 0", "not finite after 4 rounds"),
    "random": (DRAWS, "draws from torch's generator"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_check_names_the_mistake(outside, mistake):
    body, message = MISTAKES[mistake]
    path = outside.write("fedbad", f"class FedBad(FedAvg):\n    {body}\n")
    with pytest.raises(FlatFedError, match=message) as caught:
        list(contract.check("fedbad"))
    assert str(caught.value).startswith(f"{path}: ") or mistake == "random"


def test_check_hints_at_a_vector_that_stays_0(outside):
    outside.write("fedidle", 'class FedIdle(FedAvg):\n    client_state = ("c",)\n')
    assert list(contract.check("fedidle"))[-1] == "hint: client vector 'c' is declared and stays 0"


def test_the_command_prints_a_line_per_condition(capsys):
    assert cli.main(["check", "fedavg"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and all(line.startswith("fedavg: ") for line in lines)
