"""A figure as it is to be drawn: its panels, each of the kind that the figure is of, and its sentences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from flatfed import forms
from flatfed.errors import DataError, absent
from flatfed.forms import Named, Some, Whole, form_of
from flatfed.papers.figure_kinds import KINDS
from flatfed.runs import wanted
from flatfed.specs.cell import Scale
from flatfed.specs.pages import MADE_OF
from flatfed.specs.table import DatasetSpec


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of a row over the rounds: the folders of its ``runs``, a seed each.

    ``steps``: exchanges of a round, by which rounds are multiplied where the axis counts communications.
    """

    algorithm: str
    label: str
    runs: list[str]
    steps: Annotated[int, Whole(1)] = 1


@dataclass(frozen=True, kw_only=True)
class CurvesPanel:
    """Lines of a ``metric``, that of the figure where it is None."""

    title: str
    metric: str | None = None
    series: Annotated[list[Line], Some(form_of(Line))]


@dataclass(frozen=True, kw_only=True)
class Final:
    """A row's final number: for each seed the run folders whose mean it is, finished after so many ``rounds``."""

    algorithm: str
    label: str
    rounds: Annotated[int, Whole(0)]
    runs: list[list[str]]


@dataclass(frozen=True, kw_only=True)
class Point:
    """A mark over the value ``x`` of what is swept: as :class:`Final`."""

    x: float
    rounds: Annotated[int, Whole(0)]
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
    bars: Annotated[list[Final], Some(form_of(Final))]


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
    bars: Annotated[list[HessianBar], Some(form_of(HessianBar))]


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
    partitions: Annotated[list[Deal], Some(form_of(Deal))]


@dataclass(frozen=True, kw_only=True)
class Surface:
    """The loss around the model in the place ``model`` of the file ``surface``, which is that of ``runs``, one."""

    label: str
    surface: str
    model: Annotated[int, Whole(0)] = 0
    runs: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class SurfacePanel:
    """Surfaces beside each other."""

    title: str
    surfaces: Annotated[list[Surface], Some(form_of(Surface))]


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
    lines: Annotated[list[Way], Some(form_of(Way))]


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
    """What ``flatfed figure`` takes.

    ``title``, ``paper`` and ``setting`` as in a table; ``caption`` is what to see in it; ``tuning`` and ``unstated``
    say what was tuned or was not, and what the paper leaves open. ``panels`` are of the class that :data:`PANELS` has
    for the ``kind``, and ``made_of`` says which runs the folders in them are to hold. ``metric`` is what axes show,
    where panels do not say it; ``smooth`` the width of a Hanning window in evaluated rounds, odd, 0 for none;
    ``across``: what the horizontal axis of curves counts.
    """

    figure: str
    kind: Annotated[str, Named("kind", tuple(KINDS))]
    scale: Scale
    title: str
    panels: Annotated[list[Any], Some(dict)]
    paper: str = ""
    setting: str = ""
    caption: str = ""
    datasets: dict[str, DatasetSpec] = field(default_factory=dict)
    tuning: list[str] = field(default_factory=list)
    unstated: list[str] = field(default_factory=list)
    made_of: Annotated[dict[str, Any] | None, (MADE_OF, None)] = None
    metric: str | None = None
    smooth: Annotated[int, Whole(0)] = 0
    across: Annotated[str, Named("axis", ("rounds", "communications"))] = "rounds"


def read(value: Any, where: str) -> FigureSpec:
    """Return JSON as a figure with panels of its kind; DataError where it is none."""
    found = forms.read(FigureSpec, value, where)
    if KINDS[found.kind].reads == "runs" and found.metric is None:
        raise DataError(absent("key", "metric", value, where))
    panel = PANELS[found.kind]
    panels = [forms.read(panel, each, f"{where}: panels[{place}]") for place, each in enumerate(found.panels)]
    return replace(found, panels=panels)


def folders(panels: Iterable[Any]) -> list[str]:
    """Return the folders of the runs that ``panels`` name, each once, in the order that ``made_of`` is in."""
    return wanted.folders(forms.plain(list(panels)))
