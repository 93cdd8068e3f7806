"""Where everything lies: the only file that spells a path below results, resources and logs."""

from __future__ import annotations

from dataclasses import dataclass

from flatfed.data.manifest import NAME as MANIFEST
from flatfed.runs.timing import TIMING

#: Endings of the files that a table and a figure are made as.
TABLE, FIGURE = ("csv", "md", "tex", "html"), ("png", "pdf")


@dataclass(frozen=True)
class RunIds:
    """What a run is, by the ids of the configuration."""

    scale: str
    protocol: str
    split: str
    algorithm: str
    seed: int

    @property
    def name(self) -> str:
        """``<protocol>/<split>/<algorithm>/seed<k>``."""
        return f"{self.row}/seed{self.seed}"

    @property
    def row(self) -> str:
        """``<protocol>/<split>/<algorithm>``, what the seeds of a row have alike."""
        return f"{self.protocol}/{self.split}/{self.algorithm}"


@dataclass(frozen=True)
class Places:
    """The folders that all paths begin with."""

    results: str = "results"
    resources: str = "resources"
    logs: str = "logs"

    def dataset(self, name: str) -> str:
        """Return the folder of a data set."""
        return f"{self.resources}/{name}"

    def manifest(self, dataset: str) -> str:
        """Return the file that says what a data set is, and its digest."""
        return f"{self.dataset(dataset)}/{MANIFEST}"

    def arrays(self, dataset: str) -> list[str]:
        """Return the files of a data set's images and labels."""
        return [f"{self.dataset(dataset)}/{name}.npy" for name in ("images", "labels")]

    def weights(self, name: str) -> str:
        """Return the file of pre-trained weights."""
        return f"{self.resources}/weights/{name}.safetensors"

    def partition(self, scale: str, protocol: str, split: str, seed: int) -> str:
        """Return the file of a partition: that of the plain protocol, which its labelled variants share."""
        return f"{self.results}/{scale}/partitions/{protocol.partition('~')[0]}/{split}/seed{seed}.npz"

    def run(self, ids: RunIds) -> str:
        """Return the folder of a run."""
        return f"{self.results}/{ids.scale}/runs/{ids.name}"

    def analyses(self, ids: RunIds) -> str:
        """Return the folder of the analyses of a run's model."""
        return f"{self.results}/{ids.scale}/analysis/{ids.name}"

    def timing(self, ids: RunIds, name: str = TIMING) -> str:
        """Return the file of the seconds of a round of a run, whatever its seed."""
        return f"{self.results}/{ids.scale}/analysis/{ids.row}/{name}"

    def search(self, scale: str, protocol: str, split: str, row: str) -> str:
        """Return the folder of the runs that try a row's grid, and of the choice among them."""
        return f"{self.results}/{scale}/tuning/{protocol}/{split}/{row}"

    def cells(self, scale: str, table: str) -> str:
        """Return the folder of a table's cells: ``<column>/<row>.json``."""
        return f"{self.results}/{scale}/cells/{table}"

    def cell(self, scale: str, table: str, column: str, row: str) -> str:
        """Return the file of a cell."""
        return f"{self.cells(scale, table)}/{column}/{row}.json"

    def table(self, scale: str, table: str) -> list[str]:
        """Return the files of a table."""
        return [f"{self.results}/{scale}/tables/{table}.{ending}" for ending in TABLE]

    def figure(self, scale: str, figure: str) -> list[str]:
        """Return the files of a figure."""
        return [f"{self.results}/{scale}/figures/{figure}.{ending}" for ending in FIGURE]

    def report(self, scale: str) -> str:
        """Return the report of a scale."""
        return f"{self.results}/{scale}/report.html"

    @property
    def errata(self) -> str:
        """The page of the errata."""
        return f"{self.results}/errata.html"

    def log(self, kind: str, *place: str) -> str:
        """Return the log of a job of some kind, ``place`` without the ending; before the kind stands the scale, if any.

        >>> Places().log("cell", "preview", "table/column/row")
        'logs/preview/cell/table/column/row.log'
        """
        *scale, name = place
        return "/".join([self.logs, *scale, kind, f"{name}.log"])


DEFAULT = Places()
