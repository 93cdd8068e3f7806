"""Vectors that clients keep between rounds: one store, of which a round moves only the rows it touches."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from flatfed.engine.transfer import sent


class ClientState:
    """name -> (clients, size), zero until a client takes part for the first time.

    ``sizes`` name -> length of the vector; ``touched`` (clients,) bool. The store lies in its ``home``: ``device``,
    host ``memory`` or a memory-mapped temporary ``file`` (:func:`flatfed.engine.memory.home.choose` says where it
    fits); copies of its rows that outlive a block of clients lie there, too. Host memory is reserved, not filled: pages
    of clients that never took part cost nothing. To and from a GPU rows go by way of page-locked memory, which it reads
    by itself and at full speed; only what is on its way is ever locked.

    A round is a transaction: :meth:`keep` what it is about to change, then :meth:`settle` or :meth:`undo`. ``changed``
    (clients,) bool: settled since the last checkpoint; ``active``: how many the last round settled.
    """

    def __init__(self, sizes: dict[str, int], clients: int, dtype: torch.dtype, device: torch.device, home: str):
        self.device, self.home = device, home
        self.store = {name: _reserve(self.home, (clients, size), dtype, device) for name, size in sizes.items()}
        self.touched = np.zeros(clients, dtype=bool)
        self.changed = np.zeros(clients, dtype=bool)
        self.active = 0
        self._before: dict[int, dict[str, Tensor]] = {}

    def gather(self, clients: np.ndarray) -> dict[str, Tensor]:
        """Return name -> rows (n, size) of ``clients`` on the device; one client's may be the store's own memory."""
        if not self._apart:
            if len(clients) == 1:
                first = int(clients[0])
                return {name: values[first : first + 1] for name, values in self.store.items()}
            return {name: values[_index(clients, values)] for name, values in self.store.items()}
        rows = {}
        for name, values in self.store.items():
            way = self._locked(len(clients), values)
            torch.index_select(values, 0, _index(clients, values), out=way)
            rows[name] = way.to(self.device, non_blocking=True)
        return rows

    def scatter(self, clients: np.ndarray, rows: dict[str, Tensor]) -> None:
        """Write back the rows that ``gather`` gave and a block of local training changed."""
        if self._apart:
            rows = {n: self._locked(len(clients), self.store[n]).copy_(rows[n], non_blocking=True) for n in self.store}
            if self.device.type == "cuda":
                torch.cuda.current_stream(self.device).synchronize()
        elif len(clients) == 1:
            return
        for name, values in self.store.items():
            values[_index(clients, values)] = rows[name]

    def move_out(self, home: str) -> None:
        """Move the store from the device to another ``home``, vector by vector."""
        self.home = home
        for name, values in self.store.items():
            self.store[name] = _reserve(self.home, tuple(values.shape), values.dtype, self.device).copy_(values)

    @property
    def _apart(self) -> bool:
        """Whether the store lies elsewhere than the rows that train."""
        return self.home != "device" and self.device.type != "cpu"

    def _locked(self, rows: int, values: Tensor) -> Tensor:
        """Return page-locked memory for some rows of ``values``; torch keeps it until a copy that is under way ends."""
        return torch.empty(rows, values.shape[1], dtype=values.dtype, pin_memory=self.device.type == "cuda")

    def keep(self, clients: np.ndarray) -> None:
        """Remember the rows of ``clients`` as they are, until the round is settled or undone."""
        for client in map(int, clients):
            self._before[client] = {name: self.copy(name, client) for name in self.store}

    def copy(self, name: str, client: int) -> Tensor:
        """Return a copy (size,) of one client's row, in a file where the store is in one."""
        row = self.store[name][client]
        if self.home != "file":
            return row.clone()
        return _reserve("file", (1, len(row)), row.dtype, row.device)[0].copy_(row)

    def settle(self, clients: np.ndarray) -> None:
        """Let what the round did to ``clients`` stand."""
        self.touched[clients] = self.changed[clients] = True
        self.active = len(clients)
        self._before.clear()

    def undo(self) -> None:
        """Set all rows that were kept back to what they were before the round."""
        for client, rows in self._before.items():
            for name, row in rows.items():
                self.store[name][client] = row
        self._before.clear()

    def row_bytes(self) -> int:
        """Return the bytes of one client's rows."""
        return sum(values.shape[1] * values.dtype.itemsize for values in self.store.values())

    def restore(self, name: str, clients: np.ndarray, rows: Iterable[Tensor]) -> None:
        """Set vector ``name`` of ``clients`` to ``rows``, one (size,) for each, as a checkpoint holds them."""
        self.touched[clients] = True
        for client, row in zip(clients, rows, strict=True):
            self.store[name][int(client)] = row.to(self.store[name])


class Received:
    """The model that every client received last: a round number a client and one shared snapshot a round.

    A snapshot that no client refers to any more is dropped, so that there are at most as many as clients, and far fewer
    where several take part in a round. ``rounds`` (clients,) the last round of each, -1 before its first; ``snapshots``
    round -> (1, size), where the client state would lie.
    """

    def __init__(self, clients: int, device: torch.device, home: str):
        self.rounds = np.full(clients, -1, dtype=np.int64)
        self.snapshots: dict[int, Tensor] = {}
        self.device = device
        self.place = device if home == "device" else torch.device("cpu")

    def gather(self, clients: np.ndarray, w: Tensor) -> tuple[Tensor, Tensor]:
        """Return (n, size) what ``clients`` received last, ``w`` (1, size) where nothing, and (n, 1) if they did."""
        models = [self.snapshots[r].to(self.device) if r >= 0 else w for r in map(int, self.rounds[clients])]
        participated = sent(self.rounds[clients] >= 0, self.device, w.dtype)
        return torch.cat(models), participated[:, None]

    def record(self, clients: np.ndarray, round_: int, w: Tensor) -> None:
        """Note that ``clients`` received ``w`` (1, size) in ``round_``."""
        self.rounds[clients] = round_
        self.snapshots[round_] = w.to(self.place, copy=True)
        for old in set(self.snapshots) - set(self.rounds.tolist()):
            del self.snapshots[old]

    def move_out(self) -> None:
        """Move the snapshots from the device to the host."""
        self.place = torch.device("cpu")
        for round_, w in self.snapshots.items():
            self.snapshots[round_] = w.to(self.place)


def _index(clients: np.ndarray, values: Tensor) -> Tensor:
    """Return ``clients`` as an index on the device of ``values``."""
    return sent(np.asarray(clients), values.device)


def _reserve(home: str, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return zeros of ``shape`` in ``home``; a file has no name any more, so it goes with the process."""
    if home == "device":
        return torch.zeros(shape, dtype=dtype, device=device)
    if home == "memory":
        return torch.from_numpy(np.zeros(shape, dtype=str(dtype).removeprefix("torch.")))  # torch.zeros writes them all
    count = shape[0] * shape[1]
    with tempfile.NamedTemporaryFile(prefix="flatfed-clients-") as file:
        file.truncate(count * dtype.itemsize)
        return torch.from_file(file.name, shared=True, size=count, dtype=dtype).view(shape)
