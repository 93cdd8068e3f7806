"""Vectors that clients keep between rounds: one store, of which a round moves only the rows it touches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor


class ClientState:
    """name -> (clients, size), zero until a client takes part for the first time.

    Memory is reserved, not filled: pages of clients that never took part are never touched. ``sizes`` name -> length of
    the vector; ``touched`` (clients,) bool.
    """

    def __init__(self, sizes: dict[str, int], clients: int, dtype: torch.dtype, device: torch.device):
        self.store = {n: torch.zeros(clients, size, dtype=dtype, device=device) for n, size in sizes.items()}
        self.touched = np.zeros(clients, dtype=bool)

    def gather(self, clients: np.ndarray) -> dict[str, Tensor]:
        """Return name -> rows (n, parameters) of ``clients``; a single client's row is the store's own memory."""
        if len(clients) == 1:
            first = int(clients[0])
            return {name: values[first : first + 1] for name, values in self.store.items()}
        return {name: values[torch.from_numpy(clients).to(values.device)] for name, values in self.store.items()}

    def scatter(self, clients: np.ndarray, rows: dict[str, Tensor]) -> None:
        """Write back the rows that ``gather`` gave and a block of local training changed."""
        self.touched[clients] = True
        if len(clients) > 1:
            for name, values in self.store.items():
                values[torch.from_numpy(clients).to(values.device)] = rows[name]

    def dump(self) -> Iterator[tuple[str, Tensor]]:
        """Yield (name, rows of the touched clients): all that a checkpoint has to hold."""
        ids = torch.from_numpy(np.flatnonzero(self.touched))
        for name, values in self.store.items():
            yield name, values[ids.to(values.device)]

    def restore(self, clients: np.ndarray, rows: dict[str, Tensor]) -> None:
        """Set the rows of ``clients``, as ``dump`` gave them."""
        self.touched[:] = False
        self.touched[clients] = True
        for name, values in self.store.items():
            values[torch.from_numpy(clients).to(values.device)] = rows[name].to(values)
