"""All paths of results, resources and logs. The rules in workflow/rules repeat their patterns."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from flatfed.data.manifest import NAME as MANIFEST
from flatfed.errors import DataError

#: Their results never share a folder or a table.
SCALES = ("preview", "paper")

#: Path of a job's log in the folder of logs: scale, if there is one, kind and name, which a report lacks.
LOG = rf"(?:({'|'.join(SCALES)})/)?(\w+)(?:/(.+))?\.log"

TABLE, FIGURE = ("csv", "md", "tex", "html"), ("png", "pdf", "txt")


@dataclass(frozen=True)
class RunIds:
    """The ids of a run in the configuration."""

    scale: str
    protocol: str
    split: str
    algorithm: str
    seed: int

    @classmethod
    def of_folder(cls, scale: str, folder: str) -> RunIds:
        """Return the ids of the run whose ``folder`` ends with its :attr:`name`; DataError for another folder."""
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
        """``<protocol>/<split>/<algorithm>``."""
        return f"{self.protocol}/{self.split}/{self.algorithm}"


def without_label(id_: str) -> str:
    """Return an id without its label: ``fedsmoo-cifar10`` of ``fedsmoo-cifar10~K1``."""
    return id_.partition("~")[0]


@dataclass(frozen=True)
class Paths:
    """The root folders and all paths below them."""

    results: str = "results"
    resources: str = "resources"
    logs: str = "logs"

    @property
    def folders(self) -> list[str]:
        """The folders in which jobs write."""
        return [self.results, self.resources, self.logs, *(f"{self.results}/{scale}/runs" for scale in SCALES)]

    def dataset(self, name: str) -> str:
        return f"{self.resources}/{name}"

    def manifest(self, dataset: str) -> str:
        return f"{self.dataset(dataset)}/{MANIFEST}"

    def arrays(self, dataset: str) -> list[str]:
        """Return the files of images and labels."""
        return [f"{self.dataset(dataset)}/{name}.npy" for name in ("images", "labels")]

    def weights(self, name: str) -> str:
        """Return the file of pre-trained weights."""
        return f"{self.resources}/weights/{name}.pth"

    def partition(self, scale: str, protocol: str, split: str, seed: int) -> str:
        """Return the file of a partition, which labelled variants of the protocol share."""
        return f"{self.results}/{scale}/partitions/{without_label(protocol)}/{split}/seed{seed}.npz"

    def run(self, ids: RunIds) -> str:
        return f"{self.results}/{ids.scale}/runs/{ids.name}"

    def analyses(self, ids: RunIds) -> str:
        """Return the folder of a run's analyses."""
        return f"{self.results}/{ids.scale}/analysis/{ids.name}"

    def cell(self, scale: str, table: str, column: str, row: str) -> str:
        return f"{self.results}/{scale}/cells/{table}/{column}/{row}.json"

    def table(self, scale: str, table: str) -> list[str]:
        return [f"{self.results}/{scale}/tables/{table}.{ending}" for ending in TABLE]

    def figure(self, scale: str, figure: str) -> list[str]:
        return [f"{self.results}/{scale}/figures/{figure}.{ending}" for ending in FIGURE]

    def outputs(self, scale: str, tables: Iterable[str], figures: Iterable[str]) -> list[str]:
        files = [file for name in tables for file in self.table(scale, name)]
        return files + [file for name in figures for file in self.figure(scale, name)]

    def report(self, scale: str) -> str:
        return f"{self.results}/{scale}/report.html"

    def log(self, kind: str, *names: str) -> str:
        """Return the log of a job; ``names``: the scale, if there is one, and the path without its ending.

        >>> Paths().log("cell", "preview", "table/column/row")
        'logs/preview/cell/table/column/row.log'
        """
        *scale, name = names
        return "/".join([self.logs, *scale, kind, f"{name}.log"])

    def output(self, log: str | os.PathLike[str]) -> str:
        """Return an output of the job with this ``log``, "" for other logs.

        >>> Paths().output("logs/paper/train/p/s/a/seed1.log"), Paths().output("logs/fetch/digits.log")
        ('results/paper/runs/p/s/a/seed1/run.json', 'resources/digits/dataset.json')
        """
        match = re.fullmatch(LOG, str(Path(log).relative_to(self.logs)))
        scale, kind, name = match.groups() if match else ("", "", "")
        root = f"{self.results}/{scale}"
        outputs = {
            "fetch": self.manifest(name),
            "partition": f"{root}/partitions/{name}.npz",
            "train": f"{root}/runs/{name}/run.json",
            "hessian": f"{root}/analysis/{name}/hessian.json",
            "surface": f"{root}/analysis/{name}/surface.npz",
            "clients": f"{root}/analysis/{name}/clients.csv",
            "timing": f"{root}/analysis/{name}/timing.json",
            "table": f"{root}/tables/{name}.csv",
            "cell": f"{root}/cells/{name}.json",
            "figure": f"{root}/figures/{name}.png",
            "report": f"{root}/report.html",
        }
        return outputs.get(kind, "")


DEFAULT = Paths()


def analyses_beside(run: str) -> str:
    """Return the folder of the analyses of a published ``run``: .../analysis/... of .../runs/..., else its own."""
    return "/analysis/".join(f"/{run}".rsplit("/runs/", 1))[1:]
