"""What the papers printed: config/reference/*.csv, looked up by what a number is of."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path
from typing import Any

from flatfed.errors import ConfigError, absent, unknown
from flatfed.papers.metrics import METRICS
from flatfed.papers.units import UNITS

#: What a note says of an erratum that its number has.
FLAG = re.compile(r"flag:([A-Z]\d+)")

#: What a number is of. Numbers compare as numbers, whatever their decimals; everything else as text.
KEYS = (
    *("metric", "unit", "dataset", "partition", "partition_param", "clients", "participation"),
    *("algorithm", "variant", "target"),
)
COLUMNS = (*KEYS, "value", "std", "notes")

#: What a number can be of, and in what; a plain number has no unit.
NAMES = {"metric": {metric.printed_as for metric in METRICS.values()}, "unit": {"", *UNITS} - {"number"}}

#: A printed hyper-parameter grid has several numbers under one key; they are told apart by their place.
GRID = ";grid"

#: A scheme's name in a split -> its name in the reference files, and the split's key that is the parameter there.
PARTITIONS = {
    "dirichlet": ("dirichlet", "alpha"),
    "pathological": ("pathological", "classes_per_client"),
    "shards": ("pathological", "shards_per_client"),  # DFedSAM, Table 3: shards of sorted labels, each of one class
    "domain": ("domain", "domain"),
}


class Reference:
    """The numbers of one printed table."""

    def __init__(self, path: Path, name: str):
        """Read the CSV file ``path``, called ``name`` in messages; ConfigError where it is not one."""
        self.numbers: dict[tuple, dict[str, Any]] = {}
        #: Algorithms of which numbers are printed -> where the first stands.
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
        if row["variant"].endswith(GRID):
            place = 1
            while _key({**row, "variant": f"{row['variant']};{place}"}) in self.numbers:
                place += 1
            row = {**row, "variant": f"{row['variant']};{place}"}
        if row["algorithm"]:
            self.algorithms.setdefault(row["algorithm"], where)
        key = _key(row)
        if key in self.numbers:
            raise ConfigError(f"{where}: this number is given twice: {key}")
        number = {
            "value": _number(row, "value", where),
            "spread": _number(row, "std", where),
            "note": row["notes"],
        }
        if row["value"]:
            number["decimals"] = len(row["value"].partition(".")[2])
        self.numbers[key] = number

    def printed(self, what: dict[str, Any]) -> dict[str, Any] | None:
        """Return the number of ``what`` (a value for each of ``KEYS``, an absent one being empty), or None.

        The number is {"value", "spread", "note", "decimals"} in the printed unit; where "-" is printed, the value is
        None and there are no decimals.
        """
        return self.numbers.get(_key({**dict.fromkeys(KEYS, ""), **what}))


def of_split(split: dict[str, Any], clients: int) -> dict[str, Any]:
    """Return the keys of the reference files that say how data are dealt to ``clients`` clients by a split's entry."""
    partition, parameter = PARTITIONS.get(split["scheme"], (split["scheme"], ""))
    return {
        "partition": partition,
        "partition_param": split.get(parameter, ""),
        "clients": clients,
        "participation": split["participation"],
    }


def _number(row: dict[str, str], column: str, where: str) -> float | None:
    """Return the number in a column, None where nothing is printed."""
    try:
        number = float(row[column]) if row[column] else None
    except ValueError:
        number = math.nan
    if number is not None and not math.isfinite(number):
        raise ConfigError(f"{where}: {column}: {row[column]!r} is not a finite number")
    return number


def _key(row: dict[str, Any]) -> tuple:
    return tuple(_comparable(row[name]) for name in KEYS)


def _comparable(value: Any) -> Any:
    """Return a number as a float, rounded so that 100 times a fraction is the percentage; text as it is."""
    if value in ("", None):
        return ""
    try:
        return round(float(value), 9)
    except ValueError:
        return value
