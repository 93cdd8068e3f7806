"""The report of one scale: its tables, its figures, and the runs that they are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from flatfed.specs.cell import Scale
from flatfed.specs.table import DatasetSpec, TableSpec

#: Which runs some folders are to hold, as :func:`flatfed.runs.wanted.pack` writes it and ``unpack`` of it reads it.
MADE_OF = {"partitions": [(str, None)], "runs": [list]}


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure on the page: its id, title and sentences, and the file ``png``; ``setting`` as in a table."""

    figure: str
    title: str
    paper: str
    setting: str
    caption: str
    png: str
    datasets: dict[str, DatasetSpec] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ReportSpec:
    """What ``flatfed report`` takes.

    ``files`` are those of each table, by its id; ``runs`` the folders of all runs that the tables and figures use, each
    once; ``configuration`` is config.yaml as merged with the command line; ``left_out`` has a line for what was asked
    for and is not made at this scale.
    """

    scale: Scale
    tables: list[TableSpec]
    files: dict[str, list[str]]
    figures: list[Picture]
    runs: list[str]
    made_of: Annotated[dict[str, Any], MADE_OF]
    configuration: dict[str, Any]
    left_out: list[str] = field(default_factory=list)
