"""Where everything lies: the only file that spells a path below results, resources and logs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from flatfed.data.manifest import NAME as MANIFEST
from flatfed.errors import DataError

#: The two scales; their results never share a folder or a table.
SCALES = ("preview", "paper")

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

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> RunIds:
        """Return the ids that a run description begins with."""
        return cls(*(description[each.name] for each in fields(cls)))

    @classmethod
    def named(cls, scale: str, folder: str) -> RunIds:
        """Return the ids of a run of ``scale`` by the ``folder`` that is named for it (:attr:`name`).

        :raises DataError: it is named for none.
        """
        *_, seed = ids = Path(folder).parts[-4:]
        if len(ids) < 4 or not re.fullmatch(r"seed\d+", seed):
            raise DataError(f"{folder}: not the folder of a run, <protocol>/<split>/<algorithm>/seed<k>")
        return cls(scale, *ids[:-1], int(seed.removeprefix("seed")))

    @property
    def name(self) -> str:
        """``<protocol>/<split>/<algorithm>/seed<k>``."""
        return f"{self.row}/seed{self.seed}"

    @property
    def row(self) -> str:
        """``<protocol>/<split>/<algorithm>``, what the seeds of a row have alike."""
        return f"{self.protocol}/{self.split}/{self.algorithm}"


def without_label(id_: str) -> str:
    """Return the id of what ``id_`` is a labelled variant of: ``fedsmoo-cifar10`` of ``fedsmoo-cifar10~K1``."""
    return id_.partition("~")[0]


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
        return f"{self.results}/{scale}/partitions/{without_label(protocol)}/{split}/seed{seed}.npz"

    def run(self, ids: RunIds) -> str:
        """Return the folder of a run."""
        return f"{self.results}/{ids.scale}/runs/{ids.name}"

    def search(self, scale: str, protocol: str, split: str, row: str) -> str:
        """Return the folder of the runs that try a row's grid, and of the choice among them."""
        return f"{self.results}/{scale}/tuning/{protocol}/{split}/{row}"

    def cell(self, scale: str, table: str, column: str, row: str) -> str:
        """Return the file of a cell."""
        return f"{self.results}/{scale}/cells/{table}/{column}/{row}.json"

    def table(self, scale: str, table: str) -> list[str]:
        """Return the files of a table."""
        return [f"{self.results}/{scale}/tables/{table}.{ending}" for ending in TABLE]

    def figure(self, scale: str, figure: str) -> list[str]:
        """Return the files of a figure."""
        return [f"{self.results}/{scale}/figures/{figure}.{ending}" for ending in FIGURE]

    def made(self, scale: str, tables: Iterable[str], figures: Iterable[str]) -> list[str]:
        """Return the files of ``tables`` and ``figures``."""
        of_tables = [file for name in tables for file in self.table(scale, name)]
        return of_tables + [file for name in figures for file in self.figure(scale, name)]

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
