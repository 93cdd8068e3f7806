"""A run of the configuration: its files, and whether those on the disk are of this run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from flatfed.errors import DataError
from flatfed.files import digest_json
from flatfed.runs import identity, record
from flatfed.runs.analysed import AnalysedModel, Digests
from flatfed.runs.places import DEFAULT, Places, RunIds
from flatfed.runs.record import RunRecord
from flatfed.runs.timing import TIMING


@dataclass(frozen=True)
class Run(RunIds):
    """Protocol x split x algorithm x seed: one folder, one training job. It knows its files and those made of it.

    ``path`` is the run folder, ``partition`` the .npz file it trains on, ``dataset`` the name of a folder of resources.
    ``description`` is the whole of what the trainer takes, plain JSON; ``weights`` the file of the pre-trained weights
    that it names, None where it names none. Published runs have no ``partition``: their data are not checked.
    """

    path: str
    dataset: str
    partition: str | None
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
    def analyses(self) -> str:
        """The folder of the analyses of its model: .../analysis/... for a run in .../runs/...."""
        return re.sub(r"(.*/|^)runs/", r"\1analysis/", self.path, count=1)

    @property
    def hessian(self) -> str:
        """The estimates of the Hessian at its model."""
        return f"{self.analyses}/hessian.json"

    @property
    def timing(self) -> str:
        """The seconds of its rounds, the same file for all seeds."""
        return f"{Path(self.analyses).parent}/{TIMING}"

    @cached_property
    def mark(self) -> str:
        """A digest of the values of the description that decide the run's numbers."""
        return digest_json(identity.deciding_values(self.description))

    def surface(self, images: str | None = None) -> str:
        """Return the file of the loss around its model.

        ``images``: the set that it is evaluated on, where that is not left to the protocol's ``analysis:``.
        """
        return f"{self.analyses}/surface{f'.{images}' if images else ''}.npz"

    def line(self, other: RunIds) -> str:
        """Return the file of the losses on the way from its model to that of ``other``."""
        return f"{self.analyses}/line+{other.split}+{other.algorithm}.npz"

    def log(self, kind: str) -> str:
        """Return the log of a job of its own."""
        return self.places.log(kind, self.scale, self.name)

    def read_record(self, so_far: bool = False) -> RunRecord | None:
        """Return the record of this run, None if there is none; with ``so_far`` also that of an unfinished run.

        :raises DataError: the record is damaged, or of another run, another partition or other data.
        """
        path = Path(self.record)
        if so_far and not path.exists():
            path = path.with_name(record.RECORD_SO_FAR)
        try:
            found = record.read(path)
        except FileNotFoundError:
            return None
        identity.check_description(str(path), found, self.description)
        if self.partition is not None:
            identity.check_data(str(path), found, self.partition)
        return found

    def check_analysis(self, file: str | Path, model: AnalysedModel) -> RunRecord | None:
        """Return :meth:`read_record` if ``file`` is an analysis of this run's model; None if there is no record.

        ``model``: the model that the file names.

        :raises DataError: as :meth:`read_record`, or the analysis is of another run or of another model of this run.
        """
        found = self.read_record()
        if found is None:
            return None
        again = f"make it again: snakemake --cores 1 -R {file} -- {file}"
        scale = found.description["scale"]
        if (model.name, model.scale) != (found.name, scale):
            wanted = f"{found.name} at {scale} scale"
            raise DataError(f"{file}: is of another run: {model.name} at {model.scale} scale, wanted {wanted}; {again}")
        ours = Digests.of_run(found, found.files.get(record.MODEL, model.digests.model))
        for key in ("dataset", "partition", "model"):
            theirs, here = getattr(model.digests, key), getattr(ours, key)
            if theirs != here:
                told = f"another {key} (SHA-256 {theirs[:12]}) than {self.path} has ({here[:12]})"
                raise DataError(f"{file}: was made with {told}; {again}")
        return found
