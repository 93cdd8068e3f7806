"""A round in progress: copies of the clients' vectors, and what their training gives."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from flatfed.engine.client_state import Vectors


@dataclass
class ClientUpdates:
    """The vectors that a round works on, and the results of its local training.

    ``rows``: name -> (owners, size), copies of the state that the round changes, of the clients ``owners``; ``index``
    (participants,): the rows of the participants. ``losses`` (0-d): sum over ``steps`` local steps of each step's first
    loss. ``finished``: number of clients with results. ``uploads``: name -> (participants, parameters). ``models``:
    each (parameters,). ``accuracies``: columns for each node's model, if the protocol evaluates nodes. ``links``: their
    number in each gossip step.
    """

    owners: np.ndarray
    rows: Vectors
    index: np.ndarray
    losses: Tensor
    finished: int = 0
    steps: int = 0
    uploads: Vectors = field(default_factory=dict)
    models: list[Tensor] = field(default_factory=list)
    accuracies: list[dict[str, float]] = field(default_factory=list)
    links: list[int] = field(default_factory=list)

    @property
    def participants(self) -> int:
        return len(self.index)

    def add(self, uploads: Vectors) -> None:
        """Add ``uploads``, name -> (n, parameters), of the next n clients."""
        start, self.finished = self.finished, self.finished + len(uploads["w"])
        for name, values in uploads.items():
            if len(values) == self.participants:
                self.uploads[name] = values
                continue
            if name not in self.uploads:  # one matrix: concatenation would need twice the memory
                self.uploads[name] = values.new_empty(self.participants, values.shape[1])
            self.uploads[name][start : self.finished] = values
