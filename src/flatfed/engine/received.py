"""The models that clients received last."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor


class Received:
    """A round number per client and one snapshot per round.

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
