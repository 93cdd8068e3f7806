"""The contents of a figure at a scale: its panels, the runs that they show, and its texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flatfed.experiment.model import DatasetSpec
from flatfed.papers.figure_kinds import KINDS
from flatfed.runs.run import Run


@dataclass(frozen=True, kw_only=True)
class Mark:
    """What a panel shows of one row: a line, a bar, a point or a surface; or one partition, without runs.

    ``by_seed``: for each seed the runs whose mean the row's number is; ``files`` are drawn in place of the runs' own: a
    partition, a landscape, or the Hessian of each run. ``x`` is the value of what is swept; ``steps`` are the exchanges
    of a round, by which rounds are multiplied where the axis counts communications.
    """

    label: str
    algorithm: str = ""
    by_seed: Sequence[Sequence[Run]] = ()
    files: Sequence[str] = ()
    x: float = 0.0
    steps: int = 1

    @property
    def runs(self) -> list[Run]:
        """The runs, seed by seed."""
        return [run for runs in self.by_seed for run in runs]


@dataclass(frozen=True, kw_only=True)
class DrawnPanel:
    """A panel and its ``marks``, in their order.

    ``metric`` is that of curves, None for the figure's; of a sweep, ``axis`` is the parameter in words and ``levels``
    are rows that do not depend on it.
    """

    title: str
    marks: Sequence[Mark]
    metric: str | None = None
    axis: str = ""
    levels: Sequence[Mark] = ()


@dataclass(frozen=True, kw_only=True)
class FigureSpec:
    """A figure at a scale.

    ``title``, ``paper`` and ``setting`` as in a table. ``tuning`` and ``unstated`` list the tuned hyper-parameters and
    the choices that the paper leaves open. ``metric`` is the metric of the axes where a panel has none; ``smooth`` the
    width of a Hanning window in evaluated rounds, odd, 0 for none; ``across``: "rounds" or "communications", the unit
    of the horizontal axis of curves.
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

    @property
    def analysed(self) -> bool:
        """Whether the figure reads Hessians or losses at the models of its runs."""
        return KINDS[self.kind].reads == "analyses"

    @property
    def marks(self) -> list[Mark]:
        """The marks of all panels, and the levels."""
        return [mark for panel in self.panels for mark in (*panel.marks, *panel.levels)]

    @property
    def runs(self) -> dict[str, Run]:
        """The runs that the panels show, by folder."""
        return {run.path: run for mark in self.marks for run in mark.runs}

    @property
    def inputs(self) -> list[str]:
        """The files that the figure reads, each once."""
        files = [file for mark in self.marks for file in mark.files]
        files += [file for run in self.runs.values() for file in (run.partition, *run.files)]
        return list(dict.fromkeys(files))
