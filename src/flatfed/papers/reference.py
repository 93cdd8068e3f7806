"""What the papers printed: config/reference/*.csv, looked up by what a number is of."""

from __future__ import annotations

import csv
import itertools
import math
import re
from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.errors import ConfigError, absent, unknown
from flatfed.papers.metrics import METRICS
from flatfed.papers.units import UNITS

#: What a note says of an erratum that its number has.
FLAG = re.compile(r"flag:([A-Z]\d+)")

#: A printed hyper-parameter grid has several numbers under one key; their place is added to the key.
GRID = ";grid"

#: A scheme's name in a split -> its name in the reference files, and the split's key that is the parameter there.
PARTITIONS = {
    "dirichlet": ("dirichlet", "alpha"),
    "pathological": ("pathological", "classes_per_client"),
    "shards": ("pathological", "shards_per_client"),  # DFedSAM, Table 3: shards of sorted labels, each of one class
    "domain": ("domain", "domain"),
}


#: The columns that a reference file must have; the first ten say what the number is of.
COLUMNS = (
    *("metric", "unit", "dataset", "partition", "partition_param", "clients", "participation", "algorithm"),
    *("variant", "target", "value", "std", "notes"),
)
KEYS = COLUMNS[:10]


class PrintedLine(namedtuple("PrintedLine", COLUMNS)):
    """A line of a reference file, every field as it is written: what its number is of, and the number."""

    @property
    def number(self) -> float:
        """The printed value; ValueError where none is printed."""
        return float(self.value)


#: What a number can be of, and in what; a plain number has no unit.
NAMES = {"metric": {metric.printed_as for metric in METRICS.values()}, "unit": {"", *UNITS} - {"number"}}


@dataclass(frozen=True)
class Printed:
    """A printed number in its printed unit; where "-" is printed, the value is None and there are no decimals."""

    value: float | None
    spread: float | None = None
    note: str | None = ""
    decimals: int | None = None

    def stored(self, unit: str) -> tuple[float | None, float | None]:
        """Return value and spread in the unit that cells store, where they are printed in ``unit``."""
        factor = UNITS[unit].factor
        return tuple(None if number is None else number / factor for number in (self.value, self.spread))


class Reference:
    """The numbers of one printed table.

    ``lines``: those of its file. ``numbers``: what a number is of (as :data:`KEYS`, comparable) -> the number.
    ``algorithms``: those of which numbers are printed -> where the first stands.
    """

    def __init__(self, path: Path, name: str):
        """Read the CSV file ``path``, called ``name`` in messages; ConfigError where it is not one."""
        self.lines: list[PrintedLine] = []
        self.numbers: dict[tuple[float | str, ...], Printed] = {}
        self.algorithms: dict[str, str] = {}
        try:
            with open(path, newline="", encoding="utf-8") as file:
                reader = csv.DictReader(file)
                for column in COLUMNS:
                    if column not in (reader.fieldnames or ()):
                        raise ConfigError(absent("column", column, reader.fieldnames or (), name))
                for row in reader:
                    self._add(row, f"{name}: line {reader.line_num}")
        except OSError as error:
            raise ConfigError(f"{name}: cannot be read: {error.strerror}") from None
        except (ValueError, csv.Error) as error:
            raise ConfigError(f"{name}: {error}") from None

    def _add(self, row: dict[str, str], where: str) -> None:
        if None in row or None in row.values():
            short = "too many" if None in row else "too few"
            raise ConfigError(f"{where}: {short} fields; one for each column of the first line is wanted")
        for column, known in NAMES.items():
            if row[column] not in known:
                raise ConfigError(unknown(column, row[column], known - {""}, where))
        line = PrintedLine(**{column: row[column] for column in COLUMNS})
        self.lines.append(line)
        if line.algorithm:
            self.algorithms.setdefault(line.algorithm, where)
        key = _key(line._asdict())
        if line.variant.endswith(GRID):
            places = (line._replace(variant=f"{line.variant};{place}") for place in itertools.count(1))
            key = next(key for key in (_key(one._asdict()) for one in places) if key not in self.numbers)
        if key in self.numbers:
            raise ConfigError(f"{where}: this number is given twice: {key}")
        decimals = len(line.value.partition(".")[2]) if line.value else None
        numbers = _number(line.value, f"{where}: value"), _number(line.std, f"{where}: std")
        self.numbers[key] = Printed(*numbers, line.notes, decimals)

    def printed(self, what: Mapping[str, Any]) -> Printed | None:
        """Return the number of ``what`` (a value for each of ``KEYS``, an absent one being empty), or None."""
        return self.numbers.get(_key({**dict.fromkeys(KEYS, ""), **what}))


def read_all(root: Path) -> dict[str, Reference]:
    """Return the printed tables in ``root``/config/reference by name; ConfigError where one is not a table."""
    paths = sorted((root / "config" / "reference").glob("[!.]*.csv"))  # not an editor's lock or swap file
    return {path.stem: Reference(path, f"config/reference/{path.name}") for path in paths}


def keys_of_split(split: dict[str, Any], clients: int) -> dict[str, Any]:
    """Return the keys of the reference files that say how data are dealt to ``clients`` clients by a split's entry."""
    partition, parameter = PARTITIONS.get(split["scheme"], (split["scheme"], ""))
    return {
        "partition": partition,
        "partition_param": split.get(parameter, ""),
        "clients": clients,
        "participation": split["participation"],
    }


def comparable(value: Any) -> float | str:
    """Return a number as a float, rounded so that 100 times a fraction is the percentage; text as it is.

    Numbers compare as numbers, whatever their decimals; everything else as text.
    """
    if value in ("", None):
        return ""
    try:
        return round(float(value), 9)
    except ValueError:
        return value


def _number(text: str, where: str) -> float | None:
    """Return the number that ``text`` is, None where nothing is printed."""
    try:
        number = float(text) if text else None
    except ValueError:
        number = math.nan
    if number is not None and not math.isfinite(number):
        raise ConfigError(f"{where}: {text!r} is not a finite number")
    return number


def _key(what: Mapping[str, Any]) -> tuple[float | str, ...]:
    return tuple(comparable(what[name]) for name in KEYS)
