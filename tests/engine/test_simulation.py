"""Bytes that a round takes next to the clients' vectors."""

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from flatfed import algorithms
from flatfed.algorithms import _rows, dispfl
from harness import advanced, description, needs, simulation, write_problem
from samples import sampled

CLIENTS = 40
PEERS = [name for name in algorithms.names() if algorithms.load(name).decentralised]
SERVED = [name for name in algorithms.names() if name not in PEERS and not algorithms.load(name).central]


class Live(TorchDispatchMode):
    """Counts the bytes of tensors that are alive while it is entered: ``peak``, and ``largest`` of a single one.

    Those in ``known`` are not counted, and neither are views.
    """

    def __init__(self, known: list[torch.Tensor] = ()):
        super().__init__()
        self.peak = self.largest = 0
        self._known = {tensor.untyped_storage()._cdata for tensor in known}
        self._live: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self._live = {key: each for key, each in self._live.items() if not each[0].expired()}
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self._known and storage._cdata not in self._live:
                    self._live[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
                    self.largest = max(self.largest, storage.nbytes())
        self.peak = max(self.peak, sum(size for _, size in self._live.values()))
        return out


def counted(run) -> Live:
    """Return the bytes of two rounds, without those that stay between rounds."""
    with Live([*run.state.store.values(), *run.server.values(), run.weights.initial]) as live:
        advanced(run, 2)
    return live


FEW = {"sampling": {"scheme": "fixed", "fraction": 2 / CLIENTS}, "partition": {"scheme": "iid", "clients": CLIENTS}}


@pytest.fixture
def small_blocks(monkeypatch):
    for module in (_rows, dispfl):
        monkeypatch.setattr(module, "BLOCK", 16)


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
@pytest.mark.parametrize("name", sampled(SERVED))
def test_a_round_copies_the_vectors_of_its_clients_alone(tmp_path, name, executor):
    """Two of 40 clients train; a (clients, parameters) matrix would be 40 rows."""
    write_problem(tmp_path, [4] * CLIENTS)
    run = simulation(tmp_path, description(name, **FEW), executor)
    row = run.layout.size * run.dtype.itemsize
    found = counted(run)
    assert found.largest < 6 * row and found.peak < 30 * row


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
@pytest.mark.parametrize("name", sampled(PEERS))
def test_without_a_server_a_round_copies_all_vectors_once(tmp_path, small_blocks, name, executor):
    """Mixing changes those of all 40 nodes, though two train."""
    write_problem(tmp_path, [4] * CLIENTS)
    run = simulation(tmp_path, description(name, **{**needs(name), **FEW}), executor)
    row = run.layout.size * run.dtype.itemsize
    found, state = counted(run), sum(values.nbytes for values in run.state.store.values())
    assert found.largest == CLIENTS * row and state <= found.peak < state + 30 * row
