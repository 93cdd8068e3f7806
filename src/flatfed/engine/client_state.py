"""The vectors that clients keep between rounds, and the models that they received last."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from flatfed.engine.resident import to_device

Vectors = dict[str, Tensor]  # name -> (rows, size)


class Received:
    """The models that clients received last: a round number per client and one snapshot per round.

    ``rounds`` (clients,): each client's last round, -1 before its first. ``snapshots``: round -> (1, size), on the
    device only if ``home`` is; unused ones are dropped.
    """

    def __init__(self, clients: int, device: torch.device, home: str):
        self.rounds = np.full(clients, -1, dtype=np.int64)
        self.snapshots: dict[int, Tensor] = {}
        self.device = device
        self.memory = device if home == "device" else torch.device("cpu")

    def gather(self, clients: np.ndarray, w: Tensor) -> Tensor:
        """Return the last models (n, size) of ``clients``, 0 before their first round; ``w`` (1, size)."""
        zero, rounds = torch.zeros_like(w), self.rounds[clients].tolist()
        return torch.cat([self.snapshots[r].to(self.device) if r >= 0 else zero for r in rounds])

    def record(self, clients: np.ndarray, round_: int, w: Tensor) -> None:
        """Note that ``clients`` received a copy of ``w`` in ``round_``."""
        self.snapshots[round_] = w.to(self.memory, copy=True)
        self.rounds[clients] = round_
        for old in set(self.snapshots) - set(self.rounds.tolist()):
            del self.snapshots[old]

    def load(self, rounds: list[int], snapshot: Callable[[int], Tensor]) -> None:
        self.rounds[:] = rounds
        snapshots = {round_: snapshot(round_) for round_ in sorted(set(rounds) - {-1})}
        self.snapshots = {round_: w.to(self.memory, copy=True) for round_, w in snapshots.items()}


class ClientState:
    """The clients' vectors: ``store`` maps name -> (clients, size), zero at first.

    ``sizes``: name -> length. ``home``: ``device``, host ``memory`` (reserved, not filled) or a memory-mapped temporary
    ``file``. ``received``: the models that clients received last, if the algorithm needs them. ``touched`` (clients,)
    bool: clients that have participated.

    A round works on copies of rows, :meth:`gather`, and ends with :meth:`commit`. An exception before changes nothing.
    """

    def __init__(
        self,
        sizes: dict[str, int],
        clients: int,
        dtype: torch.dtype,
        device: torch.device,
        home: str,
        received: Received | None = None,
    ):
        self.device, self.home, self.received = device, home, received
        self.memory = device if home == "device" else torch.device("cpu")
        self.store = {name: self._reserve((clients, size), dtype) for name, size in sizes.items()}
        self.touched = np.zeros(clients, dtype=bool)

    def gather(self, clients: np.ndarray) -> Vectors:
        """Return copies of the rows of ``clients``, name -> (n, size), in the memory of the store."""
        return {name: self.take(values, clients) for name, values in self.store.items()}

    def take(self, values: Tensor, index: np.ndarray) -> Tensor:
        """Return a copy (n, size) of the rows ``index`` (n,) of ``values``, in the memory of the store."""
        shape = len(index), values.shape[1]
        if self.home == "memory" and self.device.type == "cuda":  # page-locked, for copies to and from the GPU
            rows = torch.empty(shape, dtype=values.dtype, pin_memory=True)
        else:
            rows = self._reserve(shape, values.dtype)
        return torch.index_select(values, 0, to_device(index, self.memory), out=rows)

    @contextmanager
    def on_device(self, rows: Vectors, index: np.ndarray) -> Iterator[Vectors]:
        """Yield the rows ``index`` (n,) of ``rows`` on the device, to change in place; write them back afterwards."""
        adjacent = (np.diff(index) == 1).all()  # a slice needs no copies
        selection = slice(index[0], index[-1] + 1) if adjacent else to_device(index, self.memory)
        part = {name: values[selection].to(self.device, non_blocking=True) for name, values in rows.items()}
        yield part
        for name, values in rows.items():
            values[selection] = part[name].to(self.memory)

    def commit(self, clients: np.ndarray, rows: Vectors) -> None:
        """Store the ``rows`` of ``clients``, which have participated."""
        index = to_device(clients, self.memory)
        for name, values in self.store.items():
            values[index] = rows[name]
        self.touched[clients] = True

    def load(self, client: int, rows: Vectors) -> None:
        """Set the vectors of ``client``, name -> (size,)."""
        self.touched[client] = True
        for name, values in self.store.items():
            values[client] = rows[name].to(values)

    def _reserve(self, shape: tuple[int, int], dtype: torch.dtype) -> Tensor:
        """Return zeros of ``shape`` in the memory of the state; a file has no name and disappears with the process."""
        if self.home == "device":
            return torch.zeros(shape, dtype=dtype, device=self.device)
        if self.home == "memory":
            # torch.zeros would fill the pages.
            return torch.from_numpy(np.zeros(shape, dtype=str(dtype).removeprefix("torch.")))
        count = shape[0] * shape[1]
        with tempfile.NamedTemporaryFile(prefix="flatfed-clients-") as file:
            file.truncate(count * dtype.itemsize)
            return torch.from_file(file.name, shared=True, size=count, dtype=dtype).view(shape)
