"""What sees a simulation between its rounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from flatfed.engine.simulation import Simulation


class Callback:
    """Called around each round of a training; every method does nothing by default.

    A callback may read ``simulation`` and must not change it.
    """

    def before_round(self, simulation: Simulation, clients: np.ndarray) -> None:
        """``clients`` (n,): ids of the clients of the coming round."""

    def after_round(self, simulation: Simulation, line: dict[str, float] | None) -> None:
        """``line``: the round's line of metrics.csv, or None for a round without evaluation."""

    def finish(self, simulation: Simulation) -> None:
        """The training is complete or has diverged."""

    def state(self) -> Any:
        """Return what the callback must keep over an interruption, as JSON; None for nothing."""

    def restore(self, state: Any) -> None:
        """Continue with the ``state`` of an earlier session."""
