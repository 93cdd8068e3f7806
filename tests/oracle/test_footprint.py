"""Bytes: what a round takes beside the clients' store, and that it is what was worked out in advance."""

from __future__ import annotations

import pytest
import torch
from harness import description, needs, simulation, write_problem

from flatfed import algorithms
from flatfed.algorithms import _rows, dispfl
from flatfed.engine.memory import footprint, sizes
from flatfed.engine.memory.footprint import Live

CLIENTS = 80
EXECUTORS = pytest.mark.parametrize("executor", ["sequential", "stacked"])
SERVER_OR_NOT = [name for name in algorithms.names() if not algorithms.load(name).central]


def lasting(run) -> list[torch.Tensor]:
    """Return what a run holds between two rounds, models received last aside."""
    return [*run.state.store.values(), *run.server.values(), run.weights.initial]


def counted(run, rounds: int) -> Live:
    with Live(lasting(run)) as live:
        for _ in range(rounds):
            run.advance()
    return live


@EXECUTORS
@pytest.mark.parametrize("name", SERVER_OR_NOT)
def test_no_round_copies_what_all_clients_keep(tmp_path, monkeypatch, name, executor):
    """Two of 80 clients train; a (clients, parameters) matrix would be 80 rows; the mixing matrix is 4.4."""
    for module in (_rows, dispfl):
        monkeypatch.setattr(module, "BLOCK", 16)
    write_problem(tmp_path, [4] * CLIENTS)
    few = {
        "sampling": {"scheme": "fixed", "fraction": 2 / CLIENTS},
        "partition": {"scheme": "test", "clients": CLIENTS},
    }
    run = simulation(tmp_path, description(name, **{**needs(name), **few}), executor)
    row = run.layout.size * run.dtype.itemsize
    found = counted(run, 2)
    assert found.largest < 6 * row
    assert found.peak < 30 * row < CLIENTS * row / 2


def test_without_a_server_models_are_copied_once_and_only_where_they_are_measured(tmp_path, monkeypatch):
    """All nodes train, one at a time: their models before the round, then those after training, never both."""
    monkeypatch.setattr(_rows, "BLOCK", 16)
    write_problem(tmp_path, [4] * CLIENTS)
    spec = description("dfedsam", **needs("dfedsam"), partition={"scheme": "test", "clients": CLIENTS})
    run = simulation(tmp_path, spec, "sequential")
    row = run.layout.size * run.dtype.itemsize
    assert CLIENTS * row <= counted(run, 2).peak < 1.2 * CLIENTS * row


@pytest.mark.parametrize(("executor", "batch"), [("sequential", 20), ("stacked", 2), ("stacked", 20), ("graph", 20)])
@pytest.mark.parametrize("name", ["fedavg", "scaffold", "fedsmoo", "dfedsam", "dispfl", "fedlesam", "mimelite"])
def test_sizes_in_advance_are_those_that_are_taken(tmp_path, name, batch, executor):
    """From 3 % below to 45 % above what tensors take at the peak of three rounds with their evaluations."""
    write_problem(tmp_path, [40] * 20)
    few = {"sampling": {"scheme": "fixed", "fraction": 0.2}, "partition": {"scheme": "test", "clients": 20}}
    changes = {**few, **needs(name), "batch_size": batch, "local_epochs": 1, "rounds": 3}
    run = simulation(tmp_path, description(name, **changes), executor)
    taken = sum(tensor.nbytes for tensor in lasting(run)) + counted(run, 3).peak
    worked_out = footprint.sizes_of(run)
    assert 0.97 <= worked_out.total / taken <= 1.45
    store = sum(values.nbytes for values in run.state.store.values())
    received = 3 * run.layout.size * run.dtype.itemsize if run.last_received else 0
    assert worked_out.state == store + received


def test_counting_sees_every_tensor_once_and_those_that_are_gone_no_more():
    known = torch.zeros(1000)
    with Live([known]) as live:
        a = torch.ones(10)
        view = a.view(2, 5)[0]
        a.add_(1)
        known.mul_(2)
        del a
        torch.ones(20)
        torch.ones(30)
    assert len(view) == 5 and (live.peak, live.largest) == (4 * 40, 4 * 30)


def test_clients_of_a_round():
    spec = {"partition": {"clients": 100}, "sampling": {"scheme": "all"}}
    assert sizes.active(spec) == 100
    assert sizes.active({**spec, "sampling": {"scheme": "fixed", "fraction": 0.07}}) == 7
    assert sizes.active({**spec, "sampling": {"scheme": "bernoulli", "fraction": 0.1}}) == 19, "10 and three times 3"
    assert sizes.active({**spec, "sampling": {"scheme": "bernoulli", "fraction": 0.9}}) == 99


def test_where_client_state_goes():
    assert sizes.home(4, 8, 0) == "device"
    assert sizes.home(4, 7, 8) == sizes.home(4, None, 8) == "memory"
    assert sizes.home(4, 7, 7) == sizes.home(4, None, 7) == "file"


def test_sizes_are_said_in_words():
    parts = [("a", 5_000_000), ("b", 2_000_000_000), ("c", 70_000_000)]
    assert sizes.listed(parts) == "b 2.0 GB, c 70.0 MB" and sizes.in_units(500) == "0 kB"
