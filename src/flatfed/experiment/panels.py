"""The contents of a figure at a scale: its panels, the runs that they show, and its texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flatfed.experiment.model import DatasetSpec
from flatfed.runs.run import Run


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of a row over the rounds: the folders of its ``runs``, a seed each.

    ``steps``: exchanges of a round, by which rounds are multiplied where the axis counts communications.
    """

    algorithm: str
    label: str
    runs: list[str]
    steps: int = 1


@dataclass(frozen=True, kw_only=True)
class CurvesPanel:
    """Lines of a ``metric``, that of the figure where it is None."""

    title: str
    metric: str | None = None
    series: list[Line]


@dataclass(frozen=True, kw_only=True)
class Final:
    """A row's final number: for each seed the run folders whose mean it is, finished after so many ``rounds``."""

    algorithm: str
    label: str
    rounds: int
    runs: list[list[str]]


@dataclass(frozen=True, kw_only=True)
class Point:
    """A mark over the value ``x`` of what is swept: as :class:`Final`."""

    x: float
    rounds: int
    runs: list[list[str]]


@dataclass(frozen=True, kw_only=True)
class Series:
    """A row's marks."""

    algorithm: str
    label: str
    points: list[Point]


@dataclass(frozen=True, kw_only=True)
class SweepPanel:
    """Marks of rows over the values of a parameter, ``axis`` in words, and ``levels`` that do not depend on it."""

    title: str
    axis: str
    series: list[Series]
    levels: list[Final]


@dataclass(frozen=True, kw_only=True)
class BarsPanel:
    """A group of bars."""

    title: str
    bars: list[Final]


@dataclass(frozen=True, kw_only=True)
class HessianBar:
    """A bar of a row: the hessian.json of each of its ``runs``, a seed each."""

    algorithm: str
    label: str
    hessians: list[str]
    runs: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class EigenvaluesPanel:
    """A group of bars of Hessians."""

    title: str
    bars: list[HessianBar]


@dataclass(frozen=True, kw_only=True)
class PartitionPanel:
    """The classes that the clients of a ``partition`` hold."""

    title: str
    partition: str


@dataclass(frozen=True, kw_only=True)
class Deal:
    """A partition beside others, with a ``label``."""

    label: str
    partition: str


@dataclass(frozen=True, kw_only=True)
class HistogramPanel:
    """How often partitions have how many images."""

    title: str
    partitions: list[Deal]


@dataclass(frozen=True, kw_only=True)
class Surface:
    """The loss around the model of ``runs``, one, in the file ``surface``."""

    label: str
    surface: str
    runs: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class SurfacePanel:
    """Surfaces beside each other."""

    title: str
    surfaces: list[Surface]


@dataclass(frozen=True, kw_only=True)
class Way:
    """The losses on the way between the models of two ``runs``, in the file ``line``."""

    label: str
    line: str
    runs: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class LinePanel:
    """Ways from one model to others."""

    title: str
    lines: list[Way]


#: Kind of figure (:mod:`flatfed.papers.figure_kinds`) -> what its panels are.
PANELS: dict[str, type] = {
    "curves": CurvesPanel,
    "sweep": SweepPanel,
    "bars": BarsPanel,
    "eigenvalues": EigenvaluesPanel,
    "partition": PartitionPanel,
    "histogram": HistogramPanel,
    "surface": SurfacePanel,
    "line": LinePanel,
}


@dataclass(frozen=True, kw_only=True)
class FigureSpec:
    """A figure at a scale.

    ``title``, ``paper`` and ``setting`` as in a table. ``tuning`` and ``unstated`` list the tuned hyper-parameters and
    the choices that the paper leaves open. ``panels`` are of the class that :data:`PANELS` has for the ``kind``;
    ``runs`` holds the runs that they show, by folder, and ``inputs`` the files that the figure reads. ``metric`` is the
    metric of the axes where a panel has none; ``smooth`` the width of a Hanning window in evaluated rounds, odd, 0 for
    none; ``across``: "rounds" or "communications", the unit of the horizontal axis of curves. ``analysed``: whether the
    figure reads Hessians or losses at the models of its runs.
    """

    figure: str
    kind: str
    scale: str
    title: str
    panels: Sequence[Any]
    paper: str = ""
    setting: str = ""
    caption: str = ""
    datasets: Mapping[str, DatasetSpec] = field(default_factory=dict)
    tuning: Sequence[str] = ()
    unstated: Sequence[str] = ()
    metric: str | None = None
    smooth: int = 0
    across: str = "rounds"
    runs: Mapping[str, Run] = field(default_factory=dict)
    inputs: Sequence[str] = ()
    analysed: bool = False
