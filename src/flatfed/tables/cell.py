"""One number of a table: the cell, as tables show it and as ``results/<scale>/cells`` holds it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from flatfed.experiment.model import CellSpec
from flatfed.papers.quantity import TEST
from flatfed.papers.reference import Printed
from flatfed.runs.uncertainty import OtherEstimate, RelativeErrors


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell, computed from its runs.

    ``unit`` is the stored one ("fraction" for what is printed in percent, ``printed_unit``) and holds for ``value``,
    ``spread``, ``values``, ``paper_value``, ``paper_spread`` and ``difference``. ``values`` has None where a seed has
    no number; ``base_values`` are in the metric's own stored unit; ``n`` counts the seeds whose runs are there, None
    where the number has nothing to do with seeds. ``best`` is each seed's best ``accuracy`` over all rounds, a
    fraction, which no table prints as its value. ``reached``: how many seeds reached a target, "1/2". ``status`` is

    ``ok``
        every seed has a number: ``value`` is their mean, ``spread`` their sample deviation (None for n = 1);
    ``not_reached``
        some seed, or its base, did not reach the target: no value;
    ``unfinished``
        some unfinished run has no number yet: no value, ``rounds`` are those that it has;
    ``diverged``
        some run ended in numbers that are not finite: no value;
    ``missing``
        some run is absent or unfinished: no value, ``problems`` names it;
    ``not_applicable``
        the cell has no sources.

    ``difference`` is ours minus the paper's, None where either is missing and always at preview scale: digits minus
    CIFAR-10 means nothing. The paper's spread is of whatever kind the paper's is; the table's notes say which.

    ``beside`` is another tool's estimate of the same number (:func:`flatfed.runs.uncertainty.pyhessian_mean`),
    ``errors`` those of one seed's estimate as shares of it; ``warnings`` are what the makers of the numbers warn of;
    ``timed``: on what, and by which executors, seconds were measured; ``images``: {data set: {"train": images,
    "test": images}} of the runs; ``roundings``: what each run was made by (:func:`flatfed.tables.readings.rounding`).
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
    accuracy: str = TEST
    reached: str | None = None
    target: float | None
    window: int = 1
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
    problems: list[str] = field(default_factory=list)
    beside: OtherEstimate | None = None
    errors: RelativeErrors | None = None
    warnings: list[str] = field(default_factory=list)
    timed: list[str] = field(default_factory=list)
    images: dict[str, dict[str, int]] = field(default_factory=dict)
    roundings: dict[str, list[str | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: CellSpec, *, value: float | None, **found: Any) -> Cell:
        """Return the cell that ``spec`` asks for; ``found`` are the fields that say what came out."""
        asked = {each.name: getattr(spec, each.name) for each in fields(cls) if hasattr(spec, each.name)}
        asked["seeds"] = list(spec.seeds)
        printed = spec.paper or Printed(None)
        paper_value, paper_spread = printed.stored(spec.unit)
        comparable = spec.scale == "paper" and spec.compare == "values" and None not in (value, paper_value)
        about = {
            "value": value,
            "printed_unit": spec.unit,
            "paper_value": paper_value,
            "paper_spread": paper_spread,
            "paper_decimals": printed.decimals,
            "paper_note": printed.note or "",
            # Printed numbers have at most six figures; ten decimals drop the dust of binary fractions and nothing else.
            "difference": round(value - paper_value, 10) if comparable else None,
        }
        return cls(**{**asked, **about, **found})
