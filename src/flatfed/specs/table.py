"""A table as it is to be set: its rows, columns, titles and notes, and the folder of its cells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from flatfed.forms import Exactly, Some, Whole, form_of
from flatfed.specs.cell import Scale, Unit


@dataclass(frozen=True)
class DatasetSpec:
    """A data set that is counted where it is read: :mod:`flatfed.tables.trained_on`.

    ``manifest`` is its dataset.json, None where none is to be looked at; ``images`` are as many as are declared, ``of``
    as many as the published set has; ``shape`` is (channels, height, width).
    """

    manifest: str | None
    images: Annotated[int, Whole(0)]
    of: Annotated[int, Whole(0)]
    shape: Annotated[list[int], Exactly(3, Whole(1))]


@dataclass(frozen=True)
class RowSpec:
    """A row: its id and what is printed in front of it."""

    id: str
    label: str


@dataclass(frozen=True, kw_only=True)
class ColumnSpec:
    """A column: ``headers`` are the paper's header levels, outermost first; ``part`` is the part of the table it is in.

    Parts are stacked. ``paper_target`` is the printed target as a fraction, whatever the scale. ``metric`` decides
    where a part that is too wide for a page is cut.
    """

    id: str
    headers: Annotated[list[str], Some(str)]
    part: str | None = None
    metric: str | None = None
    paper_target: float | None = None


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """What ``flatfed table`` takes.

    ``title`` is what the table shows, in the paper's words, and ``paper`` where it is printed; ``printed``: whether
    numbers of a paper's stand beside ours; ``setting``: data, clients, model and rounds that were really used at this
    scale, with ``{name}`` for each of the ``datasets``; ``metric`` is what a number is, in words, to which the ``unit``
    is added. Cells are read from ``<cells>/<column>/<row>.json``. ``notes`` are choices that the paper leaves open,
    deviations, and what the paper's spread is; ``flags`` the errata that the reference's notes cite as flag:B1.
    """

    table: str
    scale: Scale
    title: str
    metric: str
    unit: Unit
    rows: Annotated[list[RowSpec], Some(form_of(RowSpec))]
    columns: Annotated[list[ColumnSpec], Some(form_of(ColumnSpec))]
    cells: str
    paper: str = ""
    printed: bool = True
    setting: str = ""
    datasets: dict[str, DatasetSpec] = field(default_factory=dict)
    row_header: str = "Algorithm"
    notes: list[str] = field(default_factory=list)
    flags: dict[str, str] = field(default_factory=dict)
