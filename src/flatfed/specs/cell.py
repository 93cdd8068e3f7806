"""One cell of a table: what it is to be made of, and what was made of it."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

from flatfed import forms
from flatfed.errors import DataError
from flatfed.files import read_sealed, write_sealed
from flatfed.forms import Named, Whole
from flatfed.papers.metrics import METRICS, RELATIVES
from flatfed.papers.quantity import TEST
from flatfed.papers.reference import Printed
from flatfed.papers.units import UNITS
from flatfed.runs.uncertainty import OtherEstimate, Shares

#: The two scales; their results never share a folder or a table.
SCALES = ("preview", "paper")

Scale = Annotated[str, Named("scale", SCALES)]
Unit = Annotated[str, Named("unit", tuple(UNITS))]

#: How a cell is compared with the printed one: by its value, or by the order of the rows where the set-up is another.
COMPARED = ("values", "ordering")
Compared = Annotated[str, Named("compare", COMPARED)]

#: Descriptions of runs, as :func:`flatfed.runs.identity.pack` writes them and ``unpack`` of it reads them.
Packed = Annotated[dict[str, Any], {"share": dict, "each": [dict]}]


@dataclass(frozen=True)
class Update:
    """An algorithm by its ``name`` in ``flatfed.algorithms``, and the values of its parameters."""

    name: str
    params: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Sources:
    """What a cell reads of one row; which of it, the source of its metric says.

    ``runs`` are run folders in the order of the seeds; where a seed has several (a mean over splits), they stand
    together. ``descriptions`` are of these runs: a folder that holds another run is refused, and so is one that was
    trained on other data than the files ``partitions`` deal. ``timing`` is a timing.json, ``analyses`` a hessian.json
    for each run, ``update`` an algorithm for what it declares, ``given`` the number itself.
    """

    runs: list[str] = field(default_factory=list)
    descriptions: Packed = field(default_factory=lambda: {"share": {}, "each": []})
    partitions: list[str | None] = field(default_factory=list)
    timing: str | None = None
    analyses: list[str] = field(default_factory=list)
    update: Update | None = None
    given: float | None = None

    def holds(self, source: str) -> bool:
        """Return whether there is anything of a metric's ``source`` here."""
        found = {
            **{"runs": self.runs, "timing": self.timing, "analysis": self.analyses},
            **{"declared": self.update, "given": self.given},
        }[source]
        return found not in (None, [])


@dataclass(frozen=True, kw_only=True)
class CellSpec:
    """What ``flatfed cell`` takes: a ``metric`` of :mod:`flatfed.papers.metrics`, and where its numbers come from.

    ``unit`` is the printed one; ``target`` an accuracy of this scale, a fraction; ``window`` the evaluated rounds that
    are averaged at the end (1: the final round); ``rounds`` those of a finished run; ``accuracy`` the column of
    metrics.csv that targets are held against. ``relative`` says how the number is taken against the row ``base``, seed
    by seed. A cell without any sources is a combination that cannot exist.
    """

    table: str
    column: str
    row: str
    scale: Scale
    metric: Annotated[str, Named("metric", tuple(METRICS))]
    unit: Unit
    target: float | None = None
    window: Annotated[int, Whole(1)] = 1
    rounds: Annotated[int, Whole(0)] = 0
    seeds: list[Annotated[int, Whole(0)]] = field(default_factory=list)
    sources: Sources = Sources()
    relative: Annotated[str | None, (Named("relative", tuple(RELATIVES)), None)] = None
    base: str | None = None
    base_sources: Sources = Sources()
    paper: Printed | None = None
    accuracy: str = TEST
    compare: Compared = "values"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell as it was made, and as ``results/<scale>/cells/<table>/<column>/<row>.json`` holds it.

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

    ``beside`` is another tool's estimate of the same number (:func:`flatfed.runs.uncertainty.beside`), ``errors`` those
    of one seed's estimate as shares of it; ``warnings`` are what the makers of the numbers warn of; ``timed``: on what,
    and by which executors, seconds were measured; ``images``: {data set: {"train": images, "test": images}} of the
    runs.
    """

    table: str
    column: str
    row: str
    scale: Scale
    metric: Annotated[str, Named("metric", tuple(METRICS))]
    unit: str
    printed_unit: Unit
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
    compare: Compared
    problems: list[str] = field(default_factory=list)
    beside: OtherEstimate | None = None
    errors: Shares | None = None
    warnings: list[str] = field(default_factory=list)
    timed: list[str] = field(default_factory=list)
    images: dict[str, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: CellSpec, *, value: float | None, **found: Any) -> Cell:
        """Return the cell that ``spec`` asks for; ``found`` are the fields that say what came out."""
        asked = {each.name: getattr(spec, each.name) for each in fields(cls) if hasattr(spec, each.name)}
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


def write(path: str | os.PathLike[str], cell: Cell) -> None:
    """Write ``cell`` to ``path``, whole, with a sum of its own."""
    write_sealed(path, asdict(cell))


def read(path: Path, scale: str) -> Cell | None:
    """Return the cell in ``path``, None where there is none.

    :raises DataError: it is damaged, was edited, or is of another scale.
    """
    try:
        cell = read_sealed(forms.reader(Cell), path, "a cell", "delete it; the next call makes it again")
    except FileNotFoundError:
        return None
    if cell.scale != scale:
        raise DataError(
            f"{path}: a cell of scale {cell.scale!r} in a table of scale {scale!r}; the two are never mixed"
        )
    return cell
