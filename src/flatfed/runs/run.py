"""A run that the configuration asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flatfed.runs import record
from flatfed.runs.places import DEFAULT, Places, RunIds


@dataclass(frozen=True)
class Run(RunIds):
    """Protocol x split x algorithm x seed: one folder, one training job. It knows its files and those made of it.

    ``path`` is the run folder, ``partition`` the .npz file it trains on, ``dataset`` the name of a folder of resources.
    ``description`` is the whole of what the trainer takes, plain JSON; ``weights`` the file of the pre-trained weights
    that it names, None where it names none.
    """

    path: str
    dataset: str
    partition: str
    description: dict[str, Any]
    weights: str | None = None
    places: Places = field(default=DEFAULT, repr=False)

    @property
    def manifest(self) -> str:
        """What its data set is."""
        return self.places.manifest(self.dataset)

    @property
    def files(self) -> list[str]:
        """The files that tables and figures read: metrics and record."""
        return [f"{self.path}/{name}" for name in (record.METRICS, record.RECORD)]

    @property
    def record(self) -> str:
        """The record."""
        return f"{self.path}/{record.RECORD}"

    @property
    def model(self) -> str:
        """The model."""
        return f"{self.path}/{record.MODEL}"

    @property
    def hessian(self) -> str:
        """The estimates of the Hessian at its model."""
        return f"{self.places.analyses(self)}/hessian.json"

    @property
    def timing(self) -> str:
        """The seconds of its rounds."""
        return self.places.timing(self)

    def surface(self, images: str | None = None, other: RunIds | None = None) -> str:
        """Return the file of the loss around its model, or around it and that of ``other`` in one frame.

        ``images``: the set that it is evaluated on, where that is not left to the protocol's ``analysis:``.
        """
        beside = f"+{other.split}+{other.algorithm}" if other else ""
        return f"{self.places.analyses(self)}/surface{f'.{images}' if images else ''}{beside}.npz"

    def line(self, other: RunIds) -> str:
        """Return the file of the losses on the way from its model to that of ``other``."""
        return f"{self.places.analyses(self)}/line+{other.split}+{other.algorithm}.npz"

    def log(self, kind: str) -> str:
        """Return the log of a job of its own."""
        return self.places.log(kind, self.scale, self.name)
