"""Who printed numbers of the same cells: config/sources.yaml, its cells side by side, and how its rankings agree."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from flatfed import schemas
from flatfed.errors import ConfigError, unknown
from flatfed.papers.reference import Reference, comparable
from flatfed.strict_yaml import read as read_yaml

WHERE = "config/sources.yaml"

#: The metric whose cells are compared.
METRIC = "test_accuracy"


class Place(NamedTuple):
    """A column that several sources print: data, model, how it is dealt, clients and their share in a round."""

    dataset: str
    model: str
    partition: str
    partition_param: float | str
    clients: float | str
    participation: float | str


@dataclass(frozen=True)
class Difference:
    """What a source's set-up has otherwise than FedSMOO's: of some algorithms, data, deals, clients, or of all."""

    says: str
    rows: Sequence[str] = ()
    datasets: Sequence[str] = ()
    clients: Sequence[int] = ()
    partitions: Sequence[str] = ()

    def concerns(self, place: Place, rows: set[str]) -> bool:
        """Return whether it is of a cell of ``place`` and ``rows``."""
        of_place = (
            (self.datasets, place.dataset),
            (self.clients, place.clients),
            (self.partitions, place.partition),
        )
        in_place = all(not wanted or there in wanted for wanted, there in of_place)
        return in_place and (not self.rows or bool(rows & set(self.rows)))


@dataclass(frozen=True)
class Source:
    """Who printed ``cells``, percent by (place, algorithm), read after ``rounds`` rounds as ``read_out`` says.

    ``inferred``: what that is taken from, where the source itself does not say.
    """

    id: str
    cells: Mapping[tuple[Place, str], float]
    label: str
    where: str
    rounds: int
    read_out: str
    last: int | None = None
    differs: Sequence[Difference] = ()
    best_of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    inferred: str | None = None

    @property
    def read(self) -> str:
        """After which rounds, and how, the numbers are read, in words."""
        how = {"final": "the last round", "best": "the best round on the test set"}
        read_out = how.get(self.read_out, f"the mean of the last {self.last}")
        return f"{self.rounds:,} rounds, {'taken to be ' if self.inferred else ''}{read_out}"

    def number(self, place: Place, row: str, best_of: Mapping[str, Sequence[str]]) -> float | None:
        """Return the number of a cell, or None; for a row that others print as the best of several the best of all."""
        of = best_of.get(row, ()) if (place, row) not in self.cells else (row,)
        found = [self.cells.get((place, one)) for one in of or (row,)]
        return None if None in found else max(found)


@dataclass(frozen=True)
class Disputed:
    """A cell that several sources print: percent by source id."""

    place: Place
    row: str
    numbers: Mapping[str, float]

    @property
    def spread(self) -> float:
        """The largest of the numbers minus the smallest, in points."""
        return max(self.numbers.values()) - min(self.numbers.values())


@dataclass(frozen=True)
class Ranking:
    """Kendall's tau of two sources' ranking of the same ``rows`` in a column, its 95 % interval, None where unknown."""

    place: Place
    sources: tuple[str, str]
    rows: int
    tau: float
    interval: tuple[float, float] | None
    same_best: bool


def read(root: str | Path, references: Mapping[str, Reference]) -> list[Source]:
    """Return the sources of config/sources.yaml under ``root``, with their cells out of ``references``.

    :raises ConfigError: an entry is malformed or names no table, or two of its tables print a cell differently.
    """
    document = read_yaml(Path(root) / WHERE, WHERE)
    schemas.validate(document, "sources", WHERE)
    return [_source(name, entry, references) for name, entry in document.items()]


def _source(name: str, entry: dict[str, Any], references: Mapping[str, Reference]) -> Source:
    where = f"{WHERE}: {name}"
    if (entry["read_out"] == "mean") != ("last" in entry):
        wanted = "key 'last' is missing: over how many rounds" if "last" not in entry else "last: means nothing"
        raise ConfigError(f"{where}: {wanted} (read_out {entry['read_out']})")
    cells: dict[tuple[Place, str], float] = {}
    for place, table in enumerate(entry["tables"]):
        if table not in references:
            raise ConfigError(unknown("table", table, references, f"{where}.tables[{place}]"))
        for key, number in _numbers(references[table]):
            if cells.setdefault(key, number) != number:
                raise ConfigError(
                    f"{where}.tables[{place}]: {table} prints {number:g} for {key[1]} on {in_words(key[0])}, another "
                    f"of its tables {cells[key]:g}; a source has one number a cell"
                )
    about = {key: value for key, value in entry.items() if key != "tables"}
    differs = [Difference(**one) for one in entry.get("differs", ())]
    source = Source(name, cells, **{**about, "differs": differs})
    _check_names(source, {row for one in references.values() for row in one.algorithms}, where)
    return source


def _check_names(source: Source, printed: set[str], where: str) -> None:
    """Refuse a difference that concerns what the source does not print, and the best of algorithms that nobody has."""
    there = {
        "rows": {row for _, row in source.cells},
        "datasets": {place.dataset for place, _ in source.cells},
        "clients": {int(place.clients) for place, _ in source.cells if place.clients != ""},
    }
    for number, one in enumerate(source.differs):
        for key, known in there.items():
            for value in getattr(one, key):
                if value not in known:
                    raise ConfigError(unknown(key, value, known, f"{where}.differs[{number}]"))
    for row, algorithms in source.best_of.items():
        for one, known in [(row, there["rows"]), *((algorithm, printed) for algorithm in algorithms)]:
            if one not in known:
                raise ConfigError(unknown("row", one, known, f"{where}.best_of"))


def _numbers(reference: Reference) -> Iterable[tuple[tuple[Place, str], float]]:
    """Yield the accuracies of a table, percent, by place and algorithm: those that say how data are dealt to whom."""
    for line in reference.lines:
        whole = line.partition and line.clients and line.participation
        if line.metric == METRIC and line.unit == "percent" and whole and line.value and not line.variant:
            keys = (line.partition_param, line.clients, line.participation)
            place = Place(line.dataset, line.model, line.partition, *map(comparable, keys))
            yield (place, line.algorithm), line.number


def in_words(place: Place) -> str:
    """Return a place as a heading has it: "CIFAR-10, ResNet-18-GN, Dirichlet 0.6, 10 % of 100 clients"."""
    scheme = "IID" if place.partition == "iid" else place.partition.capitalize()
    deal = f"{scheme} {place.partition_param}".removesuffix(".0").strip()
    model = {"resnet18_gn": "ResNet-18-GN"}.get(place.model, place.model)
    data = place.dataset.replace("_", "-").upper().replace("CIFAR", "CIFAR-")
    return f"{data}, {model}, {deal}, {100 * place.participation:g} % of {place.clients:g} clients"


def disputed(sources: Sequence[Source]) -> list[Disputed]:
    """Return the cells that two sources or more print, in the order of the first that prints each."""
    best_of = {row: of for source in sources for row, of in source.best_of.items()}
    found = []
    for place, row in dict.fromkeys(key for source in sources for key in source.cells):
        numbers = {source.id: source.number(place, row, best_of) for source in sources}
        there = {name: number for name, number in numbers.items() if number is not None}
        if len(there) > 1:
            found.append(Disputed(place, row, there))
    return found


def by_place(cells: Sequence[Disputed]) -> dict[Place, list[Disputed]]:
    """Return the cells of each column, in the order in which columns and cells come."""
    columns: dict[Place, list[Disputed]] = {}
    for cell in cells:
        columns.setdefault(cell.place, []).append(cell)
    return columns


def rankings(cells: Sequence[Disputed], least: int = 4) -> list[Ranking]:
    """Return how each two sources rank the rows that both print, in each column where there are ``least`` or more."""
    from scipy.stats import kendalltau

    found = []
    for place, of_column in by_place(cells).items():
        names = dict.fromkeys(name for cell in of_column for name in cell.numbers)
        for a, b in itertools.combinations(names, 2):
            both = [(cell.numbers[a], cell.numbers[b]) for cell in of_column if {a, b} <= cell.numbers.keys()]
            if len(both) < least:
                continue
            first, second = zip(*both, strict=True)
            if len(set(first)) == 1 or len(set(second)) == 1:
                continue  # no order
            tau = float(kendalltau(first, second).statistic)
            leading = [{row for row, number in enumerate(of) if number == max(of)} for of in (first, second)]
            same = leading[0] == leading[1]
            found.append(Ranking(place, (a, b), len(both), tau, interval(tau, len(both)), same))
    return found


def interval(tau: float, rows: int) -> tuple[float, float] | None:
    """Return the 95 % interval of Kendall's tau over so many rows (Fieller, Hartley and Pearson 1957).

    The inverse hyperbolic tangent of tau is taken as normal, of variance 0.437 / (rows - 4): None of four rows, and of
    the same order, whose tangent is infinite.
    """
    if rows <= 4 or abs(tau) > 1 - 1e-9:
        return None
    half = 1.96 * math.sqrt(0.437 / (rows - 4))
    return math.tanh(math.atanh(tau) - half), math.tanh(math.atanh(tau) + half)


def differences(sources: Sequence[Source], cell: Disputed) -> list[str]:
    """Return what differs between the set-ups of those that print a cell: rounds, read-out, and what they say."""
    there = [source for source in sources if source.id in cell.numbers]
    said = []
    if len({source.read for source in there}) > 1:
        said.append("; ".join(f"{source.label} after {source.read}" for source in there))
    rows = {cell.row, *(one for source in there for one in source.best_of.get(cell.row, ()))}
    for source in there:
        own = [one.says for one in source.differs if one.concerns(cell.place, rows)]
        if own:
            said.append(f"{source.label}: {'; '.join(own)}")
    if len(there) > 1 and not any(one.concerns(cell.place, rows) for source in there for one in source.differs):
        said.append("No other difference is known")
    return said
