"""One number of a table, as tables show it and as ``results/<scale>/cells`` stores it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flatfed.plan.metrics import DEFAULT_ACCURACY
from flatfed.plan.number import Number
from flatfed.plan.reference import Printed
from flatfed.runs.curvature import OtherEstimate, RelativeErrors

#: Fields that a cell has from its numbers.
REQUESTED = (
    *("table", "column", "row", "scale", "metric", "relative", "base", "target", "accuracy"),
    *("window", "smoothing", "compare", "tolerance", "judged"),
)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell, computed from its runs.

    Numbers are in the stored ``unit`` ("fraction" where ``printed_unit`` is "percent"), ``base_values`` in that of the
    metric. ``values``: one per seed, or None. ``n``: the number of seeds, None if the number does not depend on them.
    ``best``: each seed's best ``accuracy`` over all rounds, a fraction. ``reached``: seeds that reached the target,
    "1/2". ``status``:

    ``ok``
        every seed has a number: only then a mean ``value`` and a sample deviation ``spread`` (None for one seed)
    ``not_reached``
        a seed, or its base, did not reach the target
    ``unfinished``
        a run has no number yet; ``rounds``: its completed rounds
    ``diverged``
        a run ended in non-finite numbers
    ``missing``
        a run is absent or unfinished; ``problems`` names it
    ``not_applicable``
        the cell has no sources

    ``difference``: our value minus the paper's, None at preview scale. ``beside``: PyHessian's estimate
    (:func:`flatfed.runs.curvature.pyhessian_mean`). ``errors``: relative errors of one seed's estimate. ``timed``:
    machine and executor of measured seconds. ``images``: {dataset: {"train": images, "test": images}}. ``contents``:
    {dataset: digests of the runs' data}. ``roundings``: run -> :func:`flatfed.tables.readings.rounding`. ``outdated``:
    run -> how its code differs from the present; ``warnings`` has these, too.
    """

    table: str
    column: str
    row: str
    scale: str
    metric: str
    unit: str
    printed_unit: str
    relative: str | None
    base: str | None = None
    status: str
    value: float | None
    spread: float | None
    spread_kind: str = "seeds"
    n: int | None
    values: list[float | None]
    base_values: list[float | None] = field(default_factory=list)
    best: list[float | None] = field(default_factory=list)
    accuracy: str = DEFAULT_ACCURACY
    reached: str | None = None
    target: float | None
    window: int = 1
    smoothing: int = 1
    rounds: int = 0
    seeds: list[int]
    runs: list[str]
    base_runs: list[str] = field(default_factory=list)
    paper_value: float | None
    paper_spread: float | None
    paper_decimals: int | None
    paper_note: str
    difference: float | None
    compare: str
    tolerance: tuple[float, float] | None = None
    judged: bool = True
    problems: list[str] = field(default_factory=list)
    beside: OtherEstimate | None = None
    errors: RelativeErrors | None = None
    warnings: list[str] = field(default_factory=list)
    timed: list[str] = field(default_factory=list)
    images: dict[str, dict[str, int]] = field(default_factory=dict)
    contents: dict[str, list[str]] = field(default_factory=dict)
    roundings: dict[str, list[str | None]] = field(default_factory=dict)
    outdated: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, number: Number, *, value: float | None, **results: Any) -> Cell:
        """Return the cell of ``number``; ``results``: fields that its runs decide."""
        requested = {name: getattr(number, name) for name in REQUESTED}
        printed = number.paper or Printed(None)
        paper_value, paper_spread = printed.stored(number.unit)
        comparable = number.scale == "paper" and number.compare == "values" and None not in (value, paper_value)
        requested |= {"printed_unit": number.unit, "paper_value": paper_value, "paper_spread": paper_spread}
        requested |= {"paper_decimals": printed.decimals, "paper_note": printed.note or ""}
        # Ten decimals drop only floating-point noise.
        difference = round(value - paper_value, 10) if comparable else None
        return cls(**{**requested, **results, "value": value, "difference": difference})
