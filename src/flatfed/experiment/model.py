"""What the configuration resolves to: runs, cells, tables, figures. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: The two scales; their results never share a folder or a table.
SCALES = ("preview", "paper")


@dataclass(frozen=True)
class Run:
    """Protocol x split x algorithm x seed: one folder, one training job.

    ``path`` is the run folder, ``partition`` the .npz file it trains on, ``dataset`` the name of a folder of resources.
    ``description`` is the whole of what the trainer takes, plain JSON.
    """

    path: str
    scale: str
    protocol: str
    split: str
    algorithm: str
    seed: int
    dataset: str
    partition: str
    description: dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One number of a table: ``spec`` is what ``flatfed cell`` takes, ``runs`` the runs it reads, one a seed."""

    path: str
    runs: list[Run]
    spec: dict[str, Any]


@dataclass(frozen=True)
class Column:
    """A column of a table: a metric of one protocol and split.

    ``headers`` are the paper's header levels, outermost first; ``part`` is the block of the table it stands in;
    ``target`` is the name of the target accuracy in the protocol (t1, t2), None where the metric has none.
    """

    id: str
    protocol: str
    split: str
    metric: str
    unit: str
    target: str | None
    headers: tuple[str, ...]
    part: str | None


@dataclass(frozen=True)
class Table:
    """A table: ``settings`` is its YAML, validated; ``reference`` the name of the printed numbers, or None."""

    id: str
    rows: tuple[str, ...]
    columns: dict[str, Column]
    reference: str | None
    settings: dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """A figure of a paper: ``settings`` is its YAML, validated."""

    id: str
    kind: str
    settings: dict[str, Any]
