"""The vectors that clients keep between rounds, and the models that they received last."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from flatfed.engine.resident import to_device


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
        self.snapshots[round_] = w.to(self.memory)
        self.rounds[clients] = round_
        for old in set(self.snapshots) - set(self.rounds.tolist()):
            del self.snapshots[old]

    def load(self, rounds: list[int], snapshot: Callable[[int], Tensor]) -> None:
        self.rounds[:] = rounds
        self.snapshots = {round_: snapshot(round_).to(self.memory) for round_ in sorted(set(rounds) - {-1})}


class ClientState:
    """The clients' vectors: ``store`` maps name -> (clients, size), zero before a client's first participation.

    ``sizes``: name -> length. ``home``: ``device``, host ``memory`` (reserved, not filled) or a memory-mapped temporary
    ``file``. ``received``: the models that clients received last, if the algorithm needs them.

    A round is a :meth:`transaction`. ``touched`` (clients,) bool: clients that have participated; ``changed``: clients
    changed since the last checkpoint; ``active``: number of clients that the last round changed (all if
    ``all_change``). ``consistent``: False between an :meth:`irreversible` change and the end of its round.
    """

    def __init__(
        self,
        sizes: dict[str, int],
        clients: int,
        dtype: torch.dtype,
        device: torch.device,
        home: str,
        all_change: bool = False,
        received: Received | None = None,
    ):
        self.device, self.home, self.all_change, self.received = device, home, all_change, received
        self.store = {name: _reserve(self.home, (clients, size), dtype, device) for name, size in sizes.items()}
        self.touched = np.zeros(clients, dtype=bool)
        self.changed = np.zeros(clients, dtype=bool)
        self.active, self.consistent = 0, True
        self._clients: np.ndarray = np.arange(0)
        self._before: dict[int, dict[str, Tensor]] = {}
        self._unwritten: list[tuple[np.ndarray, dict[str, Tensor]]] = []

    @contextmanager
    def transaction(self, clients: np.ndarray, server: dict[str, Tensor], round_: int) -> Iterator[None]:
        """Run ``round_`` of ``clients``; an exception restores their vectors and those of ``server``.

        It restores nothing after :meth:`irreversible` and while the round is being stored.
        """
        self._clients, before = clients, {name: value.clone() for name, value in server.items()}
        try:
            yield
            self.irreversible()
            if self.received is not None:
                self.received.record(clients, round_, before["w"])
            self.settle()
        except BaseException:
            if self.consistent:
                for client, rows in self._before.items():
                    for name, row in rows.items():
                        self.store[name][client] = row
                for name, value in before.items():
                    server[name].copy_(value)
            raise
        finally:
            self._before.clear()
            self._unwritten.clear()

    @contextmanager
    def writable_rows(self, clients: np.ndarray) -> Iterator[dict[str, Tensor]]:
        """Yield the vectors of ``clients``, name -> (n, size) on the device, to change in place; store them afterwards.

        If all clients of the round, at least two, train at once, their rows are copies, stored at the end of the round.
        Otherwise the store changes during the round; copies of the old rows can restore it.
        """
        at_once = 1 < len(clients) == len(self._clients)
        if not at_once:
            self._before |= {c: {name: self.copy(name, c) for name in self.store} for c in map(int, clients)}
        rows = self.gather(clients)
        yield rows  # not in a try block: after an exception, nothing is stored
        self._unwritten.append((clients, rows))
        if not at_once:
            self._write()

    def irreversible(self) -> None:
        """Store all rows; an exception before :meth:`settle` leaves the state inconsistent."""
        self.consistent = False
        self._write()
        self._before.clear()

    def settle(self) -> None:
        """Make the changes permanent: a later exception in the round restores this state."""
        changed = slice(None) if self.all_change else self._clients
        self.touched[changed] = self.changed[changed] = True
        self.active = len(self.touched[changed])
        self.consistent = True

    def gather(self, clients: np.ndarray) -> dict[str, Tensor]:
        """Return name -> rows (n, size) of ``clients`` on the device; rows of one client may be views of the store."""
        if not self._off_device:
            if len(clients) == 1:
                return {name: values[clients[0]][None] for name, values in self.store.items()}
            return {name: values[to_device(clients, values.device)] for name, values in self.store.items()}
        rows = {}
        for name, values in self.store.items():
            locked = self._locked(len(clients), values)
            torch.index_select(values, 0, to_device(clients, values.device), out=locked)
            rows[name] = locked.to(self.device, non_blocking=True)
        return rows

    def copy(self, name: str, client: int) -> Tensor:
        """Return a copy (size,) of one client's row, in a file if the store is in one."""
        row = self.store[name][client]
        if self.home != "file":
            return row.clone()
        return _reserve("file", (1, len(row)), row.dtype, row.device)[0].copy_(row)

    def row_bytes(self) -> int:
        return sum(values.shape[1] * values.dtype.itemsize for values in self.store.values())

    def load(self, client: int, rows: dict[str, Tensor]) -> None:
        """Set the vectors of ``client``, name -> (size,)."""
        self.touched[client] = True
        for name, values in self.store.items():
            values[client] = rows[name].to(values)

    def _write(self) -> None:
        for clients, rows in self._unwritten:
            if self._off_device:
                rows = {n: self._locked(len(clients), self.store[n]).copy_(rows[n], non_blocking=True) for n in rows}
                if self.device.type == "cuda":
                    torch.cuda.current_stream(self.device).synchronize()
            elif len(clients) == 1:
                continue  # a view of the store
            for name, values in self.store.items():
                values[to_device(clients, values.device)] = rows[name]
        self._unwritten.clear()

    @property
    def _off_device(self) -> bool:
        return self.home != "device" and self.device.type != "cpu"

    def _locked(self, rows: int, values: Tensor) -> Tensor:
        """Return page-locked memory for rows of ``values``; torch keeps it until pending copies end."""
        return torch.empty(rows, values.shape[1], dtype=values.dtype, pin_memory=self.device.type == "cuda")


def _reserve(home: str, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return zeros of ``shape``; a file has no name and disappears with the process."""
    if home == "device":
        return torch.zeros(shape, dtype=dtype, device=device)
    if home == "memory":
        # torch.zeros would fill the pages.
        return torch.from_numpy(np.zeros(shape, dtype=str(dtype).removeprefix("torch.")))
    count = shape[0] * shape[1]
    with tempfile.NamedTemporaryFile(prefix="flatfed-clients-") as file:
        file.truncate(count * dtype.itemsize)
        return torch.from_file(file.name, shared=True, size=count, dtype=dtype).view(shape)
