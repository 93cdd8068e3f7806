"""What the papers printed: config/reference/*.csv, looked up by what a number is of."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from flatfed.errors import ConfigError, unknown

COLUMNS = (
    *("metric", "dataset", "partition", "partition_param", "clients", "participation"),
    *("algorithm", "target", "value", "std", "notes"),
)

#: A scheme's name in a split -> the split's key that is the parameter in the reference files.
PARAMETERS = {"dirichlet": "alpha", "pathological": "classes_per_client", "shards": "shards_per_client"}


class Reference:
    """The numbers of one printed table."""

    def __init__(self, path: Path, name: str):
        """Read the CSV file ``path``, called ``name`` in messages; ConfigError where it is not one."""
        self.numbers: dict[tuple, dict[str, Any]] = {}
        try:
            with open(path, newline="", encoding="utf-8") as file:
                reader = csv.DictReader(file)
                for column in COLUMNS:
                    if column not in (reader.fieldnames or ()):
                        raise ConfigError(unknown("column", column, reader.fieldnames or (), name))
                for row in reader:
                    key = _key(row, row["target"])
                    if key in self.numbers:
                        raise ConfigError(f"{name}: line {reader.line_num}: this number is given twice: {key}")
                    self.numbers[key] = {
                        "value": _number(row["value"]),
                        "spread": _number(row["std"]),
                        "note": row["notes"],
                    }
        except OSError as error:
            raise ConfigError(f"{name}: cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise ConfigError(f"{name}: {error}") from None

    def printed(
        self, metric: str, dataset: str, split: dict[str, Any], algorithm: str, target: float | None
    ) -> dict[str, Any] | None:
        """Return {"value", "spread", "note"} in the printed unit, value None where "-" is printed; None: no such cell.

        ``split`` is the split at the paper's scale, ``target`` a fraction.
        """
        scheme = split["scheme"]
        row = {
            "metric": metric,
            "dataset": dataset,
            "partition": scheme,
            "partition_param": split.get(PARAMETERS.get(scheme, ""), ""),
            "clients": split["clients"],
            "participation": split["participation"],
            "algorithm": algorithm,
        }
        return self.numbers.get(_key(row, "" if target is None else 100 * target))


def _key(row: dict[str, Any], target: Any) -> tuple:
    """Return what identifies a number; numbers compare as numbers, whatever their decimals."""
    numbers = [_number(row[name]) for name in ("partition_param", "clients", "participation")]
    goal = _number(target)
    names = [row[name] for name in ("metric", "dataset", "partition", "algorithm")]
    return (*names, *numbers, None if goal is None else round(goal, 6))


def _number(text: Any) -> float | None:
    return None if text == "" else float(text)
