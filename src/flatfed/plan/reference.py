"""The printed numbers of the papers, config/reference/*.csv, and their contradictions, config/errata.yaml.

The reference numbers remain as printed. A note ``flag:B1`` at a printed number cites an erratum. For each of its
tables, an erratum that flags no number there appears as a note.
"""

from __future__ import annotations

import csv
import itertools
import math
import re
from collections import namedtuple
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.config import parsed_files, strict_yaml
from flatfed.config.erratum import ERRATA, Erratum
from flatfed.config.split import Split
from flatfed.errors import ConfigError, missing_message, unknown
from flatfed.plan import lookup
from flatfed.plan.lookup import Mistakes
from flatfed.plan.metrics import METRICS
from flatfed.plan.units import AMOUNTS, UNITS

#: The file of the errata.
ERRATA_FILE = "config/errata.yaml"

#: The citation of an erratum in a note.
FLAG = re.compile(r"flag:([A-Z]\d+)")

#: Variant suffix of a printed hyper-parameter grid; its numbers also get their position as a suffix.
GRID = ";grid"

#: The required columns of a reference file.
COLUMNS = (
    *("metric", "unit", "dataset", "partition", "partition_param", "clients", "participation", "algorithm"),
    *("variant", "target", "value", "std", "notes"),
)
KEYS = COLUMNS[:10]


#: A line of a reference file; its fields are text.
PrintedLine = namedtuple("PrintedLine", COLUMNS)

#: Printed settings, which no run measures (FedSAM, Table 3; FedSMOO, Tables 4 and 5; FedLESAM, Table 6).
SETTINGS = {
    *("clients", "total_samples", "train_samples", "test_samples", "classes", "domains"),
    *("image_channels", "image_height", "image_width", "hp_local_learning_rate", "hp_sam_learning_rate"),
    *("hp_penalized_coefficient_beta", "hp_client_level_momentum_alpha", "hp_global_learning_rate"),
    "hp_learning_rate_decay",
}

#: Column -> allowed values; a plain number has an empty unit.
NAMES = {"metric": SETTINGS | {metric.printed_as for metric in METRICS.values()}, "unit": {"", *UNITS} - {"number"}}

#: Printed unit -> least value, and largest. Others, such as differences (pp), ratios and traces, may be negative.
BOUNDS = {"percent": (0.0, 100.0), "rounds": (1.0,), "count": (1.0,), **dict.fromkeys(("squared_l2", *AMOUNTS), (0.0,))}


@dataclass(frozen=True)
class Printed:
    """A printed number in its printed unit; for a printed "-", value and decimals are None."""

    value: float | None
    spread: float | None = None
    note: str | None = ""
    decimals: int | None = None

    def stored(self, unit: str) -> tuple[float | None, float | None]:
        """Return value and spread in the stored unit; ``unit``: the printed one."""
        factor = UNITS[unit].factor
        return tuple(None if number is None else number / factor for number in (self.value, self.spread))


class Reference:
    """The numbers of one printed table.

    ``numbers``: :data:`KEYS` as comparable values -> number. ``places``: the same keys -> location of the number.
    ``algorithms``: algorithm -> the location of its first number. ``flags``: the ids of errata that its numbers cite.
    """

    def __init__(self, path: Path, name: str):
        """Read the CSV file ``path``; ConfigError for invalid content."""
        self.lines: list[PrintedLine] = []
        self.numbers: dict[tuple[float | str, ...], Printed] = {}
        self.places: dict[tuple[float | str, ...], str] = {}
        self.algorithms: dict[str, str] = {}
        self.flags: set[str] = set()
        try:
            columns, rows = parsed_files.content(path, _parsed)
            for column in COLUMNS:
                if column not in columns:
                    raise ConfigError(missing_message("column", column, columns, name))
            for line, row in rows:
                self._add(row, f"{name}: line {line}")
            self._check_units()
        except OSError as error:
            raise ConfigError(f"{name}: cannot be read: {error.strerror}") from None
        except (ValueError, csv.Error) as error:
            raise ConfigError(f"{name}: {error}") from None

    def _add(self, row: dict[str, str], where: str) -> None:
        if None in row or None in row.values():
            short = "too many" if None in row else "too few"
            raise ConfigError(f"{where}: {short} fields; give one for each column of the first line")
        for column, allowed in NAMES.items():
            if row[column] not in allowed:
                raise ConfigError(unknown(column, row[column], allowed - {""}, where))
        line = PrintedLine(**{column: row[column] for column in COLUMNS})
        self.lines.append(line)
        self.flags.update(FLAG.findall(line.notes))
        if line.algorithm:
            self.algorithms.setdefault(line.algorithm, where)
        key = _key(line._asdict())
        if line.variant.endswith(GRID):
            keys = (_key({**row, "variant": f"{line.variant};{index}"}) for index in itertools.count(1))
            key = next(key for key in keys if key not in self.numbers)
        if key in self.numbers:
            raise ConfigError(f"{where}: this number is given twice: {key}")
        decimals = len(line.value.partition(".")[2]) if line.value else None
        value = _number(line.value, f"{where}: value", *BOUNDS.get(line.unit, ()))
        spread = _number(line.std, f"{where}: std", 0.0)
        self.numbers[key], self.places[key] = Printed(value, spread, line.notes, decimals), where

    def _check_units(self) -> None:
        """Refuse a fraction among percentages: less than a fiftieth of all others of its metric and dataset."""
        of_metric: dict[tuple[float | str, ...], list[tuple[float, str]]] = {}
        for key, number in self.numbers.items():
            if number.value and key[1] == "percent":
                of_metric.setdefault(key[:3], []).append((number.value, self.places[key]))
        for numbers in of_metric.values():
            (least, where), *others = sorted(numbers)
            if others and 50 * least < others[0][0]:
                alone = f"value: {least:g} is not a percentage like the others, from {others[0][0]:g} up"
                raise ConfigError(f"{where}: {alone}; write {100 * least:g}, or another unit")

    def printed(self, fields: Mapping[str, Any]) -> Printed | None:
        """Return the number at ``fields``, whose missing keys are empty, or None."""
        return self.numbers.get(_key(fields))


def _parsed(path: Path) -> list[Any]:
    """Return the columns of a CSV file, and the line number and the fields of each row."""
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        return [list(reader.fieldnames or ()), [[reader.line_num, row] for row in reader]]


def read_all(root: Path, mistakes: Mistakes) -> dict[str, Reference]:
    """Return the valid printed tables by name."""
    references = {}
    for path in parsed_files.listed(root / "config" / "reference", ".csv"):
        with mistakes.noted([("reference", path.stem)]):
            references[path.stem] = Reference(path, f"config/reference/{path.name}")
    return references


def keys_of_split(split: Split, clients: int) -> dict[str, float | str]:
    """Return the keys of the reference files for a split with ``clients`` clients."""
    scheme, parameter = split.printed
    return {
        "partition": scheme,
        "partition_param": getattr(split, parameter) if parameter else "",
        "clients": clients,
        "participation": split.participation,
    }


def comparable(value: Any) -> float | str:
    """Return a number rounded to allow for floating-point error, and other text unchanged."""
    if value in ("", None):
        return ""
    try:
        return round(float(value), 9)
    except ValueError:
        return value


def _number(text: str, where: str, least: float = -math.inf, largest: float = math.inf) -> float | None:
    try:
        number = float(text) if text else None
    except ValueError:
        number = math.nan
    if number is not None and not math.isfinite(number):
        raise ConfigError(f"{where}: {text!r} is not a finite number")
    if number is not None and not least <= number <= largest:
        raise ConfigError(f"{where}: {text!r} is not allowed; expected {least:g} to {largest:g}")
    return number


def _key(fields: Mapping[str, Any]) -> tuple[float | str, ...]:
    return tuple(comparable(fields.get(name)) for name in KEYS)


@dataclass(frozen=True)
class Errata:
    """The ``entries`` of config/errata.yaml by id; ``flagged``: printed table -> ids that its numbers cite."""

    entries: Mapping[str, Erratum]
    flagged: Mapping[str, Collection[str]]

    def flags(self, table: str) -> dict[str, str]:
        """Return id -> line of the errata that flag numbers of ``table``."""
        return {name: entry.says for name, entry in self.entries.items() if name in self.flagged.get(table, ())}

    def of_table(self, table: str) -> dict[str, str]:
        """Return id -> line of the errata on the whole ``table``, which flag none of its numbers."""
        errata = {name: entry for name, entry in self.entries.items() if table in entry.tables}
        return {name: entry.says for name, entry in errata.items() if name not in self.flagged[table]}


def read_errata(root: Path, references: Mapping[str, Reference], mistakes: Mistakes) -> Errata:
    """Return the errata; a mistake is an invalid entry, an unknown table of one, or an unknown erratum of a number."""
    entries: dict[str, Erratum] = {}
    with mistakes.noted([("erratum", lookup.ALL)]):
        entries = ERRATA.check(strict_yaml.read(root / ERRATA_FILE, ERRATA_FILE), ERRATA_FILE)
    for name, entry in entries.items():
        for index, table in enumerate(entry.tables):
            mistakes.note(lookup.check, "reference", table, references, f"{ERRATA_FILE}: {name}.tables[{index}]")
    flagged = {name: reference.flags for name, reference in references.items()}
    for table, flags in flagged.items():
        for name in sorted(flags):
            mistakes.note(lookup.check, "erratum", name, entries, f"config/reference/{table}.csv: flag")
    return Errata(entries, flagged)
