"""The contents of a figure at a scale: its panels, the runs that they show, and its texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flatfed.experiment.model import DatasetSpec
from flatfed.runs.run import Run


@dataclass(frozen=True, kw_only=True)
class CurveLine:
    """A line of a row over the rounds: the folders of its ``runs``, a seed each.

    ``steps``: exchanges of a round, by which rounds are multiplied where the axis counts communications.
    """

    algorithm: str
    label: str
    runs: list[str]
    steps: int = 1


@dataclass(frozen=True, kw_only=True)
class Final:
    """A row's final number: for each seed the run folders whose mean it is, finished after so many ``rounds``."""

    algorithm: str
    label: str
    rounds: int
    runs: list[list[str]]


@dataclass(frozen=True, kw_only=True)
class SweepPoint:
    """A mark over the value ``x`` of what is swept: as :class:`Final`."""

    x: float
    rounds: int
    runs: list[list[str]]


@dataclass(frozen=True, kw_only=True)
class Series:
    """A row's marks."""

    algorithm: str
    label: str
    points: list[SweepPoint]


@dataclass(frozen=True, kw_only=True)
class HessianBar:
    """A bar of a row: the hessian.json of each of its ``runs``, a seed each."""

    algorithm: str
    label: str
    hessians: list[str]
    runs: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class FileMark:
    """What is drawn of one ``file``: a partition, or the loss around the model of ``runs``, one, or between two."""

    label: str
    file: str
    runs: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class DrawnPanel:
    """A panel and the ``marks`` of its kind of figure, in their order.

    They are :class:`CurveLine` of curves, :class:`Series` of a sweep, :class:`Final` of bars, :class:`HessianBar` of
    eigenvalues, else :class:`FileMark`. ``metric`` is that of curves, None for the figure's; of a sweep, ``axis`` is
    the parameter in words and ``levels`` are numbers that do not depend on it.
    """

    title: str
    marks: Sequence[Any]
    metric: str | None = None
    axis: str = ""
    levels: Sequence[Final] = ()


@dataclass(frozen=True, kw_only=True)
class FigureSpec:
    """A figure at a scale.

    ``title``, ``paper`` and ``setting`` as in a table. ``tuning`` and ``unstated`` list the tuned hyper-parameters and
    the choices that the paper leaves open. ``runs`` holds the runs that the ``panels`` show, by folder, and ``inputs``
    the files that the figure reads. ``metric`` is the metric of the axes where a panel has none; ``smooth`` the width
    of a Hanning window in evaluated rounds, odd, 0 for none; ``across``: "rounds" or "communications", the unit of the
    horizontal axis of curves. ``analysed``: whether the figure reads Hessians or losses at the models of its runs.
    """

    figure: str
    kind: str
    scale: str
    title: str
    panels: Sequence[DrawnPanel]
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
