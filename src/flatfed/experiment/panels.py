"""The types of a figure specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flatfed.experiment.model import DatasetSpec
from flatfed.papers.figure_kinds import KINDS
from flatfed.runs.run import Run


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A mark of a panel: the line, bar, point or surface of a row, or a partition without runs.

    ``by_seed``: the runs of each seed, which are averaged. ``files``: partition, landscape or Hessians to draw instead.
    ``x``: the value of the swept parameter. ``steps``: communications per round. ``window``: evaluations in a
    final number.
    """

    label: str
    algorithm: str = ""
    by_seed: Sequence[Sequence[Run]] = ()
    files: Sequence[str] = ()
    x: float = 0.0
    steps: int = 1
    window: int = 1

    @property
    def runs(self) -> list[Run]:
        """The runs, ordered by seed."""
        return [run for runs in self.by_seed for run in runs]


@dataclass(frozen=True, kw_only=True)
class DrawnPanel:
    """A panel and its ``marks``.

    ``metric``: of curves, None for the figure's. In a sweep, ``axis`` is the label of the parameter, and ``levels`` are
    rows that do not depend on it.
    """

    title: str
    marks: Sequence[Mark]
    metric: str | None = None
    axis: str = ""
    levels: Sequence[Mark] = ()


@dataclass(frozen=True, kw_only=True)
class FigureSpec:
    """A figure at a scale.

    ``prefix``: the text before ``title``. ``tuning``, ``unstated``: lines on tuned hyper-parameters and on choices that
    the paper does not state. ``metric``: the default of the panels. ``smooth``: the odd width of a Hanning window in
    evaluated rounds, or 0. ``across``: the horizontal axis of curves, "rounds" or "communications".
    """

    figure: str
    kind: str
    scale: str
    title: str
    panels: Sequence[DrawnPanel]
    prefix: str = ""
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
        """Whether the figure reads Hessians or loss surfaces."""
        return KINDS[self.kind].reads == "analyses"

    @property
    def marks(self) -> list[Mark]:
        """The marks and levels of all panels."""
        return [mark for panel in self.panels for mark in (*panel.marks, *panel.levels)]

    @property
    def runs(self) -> dict[str, Run]:
        """Folder -> run."""
        return {run.path: run for mark in self.marks for run in mark.runs}

    @property
    def inputs(self) -> list[str]:
        """The files that the figure reads."""
        files = [file for mark in self.marks for file in mark.files]
        files += [file for run in self.runs.values() for file in (run.partition, *run.files)]
        return list(dict.fromkeys(files))
