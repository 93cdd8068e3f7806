"""The printed numbers as rows, for the checks of the errata."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flatfed.errors import ConfigError, unknown

#: What names a setting; the metric, its unit, the variant and the target come beside it.
SETTING = ("dataset", "partition", "partition_param", "clients", "participation", "algorithm")

Row = dict[str, str]


class Numbers:
    """config/reference/*.csv: table id -> rows, every field as it is written."""

    def __init__(self, root: str | Path):
        self.tables: dict[str, list[Row]] = {}
        for path in sorted((Path(root) / "config" / "reference").glob("[!.]*.csv")):
            with open(path, newline="", encoding="utf-8") as file:
                self.tables[path.stem] = list(csv.DictReader(file))

    def rows(self, table: str, **fields: Any) -> Iterator[Row]:
        """Yield the rows of ``table`` whose fields are ``fields``; numbers compare as numbers, a list as one of it.

        :raises ConfigError: there is no such table, or no such field in it.
        """
        if table not in self.tables:
            raise ConfigError(unknown("table", table, self.tables, "table"))
        for row in self.tables[table]:
            if missing := fields.keys() - row.keys():
                raise ConfigError(unknown("key", min(missing), row, f"table {table}"))
            if all(_same(row[name], value) for name, value in fields.items()):
                yield row

    def one(self, table: str, **fields: Any) -> Row:
        """Return the only row of ``table`` with these fields; ConfigError where there is none or more than one."""
        found = list(self.rows(table, **fields))
        if len(found) != 1:
            wanted = ", ".join(f"{name}: {value}" for name, value in fields.items())
            raise ConfigError(f"{len(found)} rows of config/reference/{table}.csv, not one, have {{{wanted}}}")
        return found[0]

    def value(self, table: str, **fields: Any) -> float:
        """Return the number of the only row of ``table`` with these fields."""
        return float(self.one(table, **fields)["value"])


def setting(row: Row, *also: str) -> tuple[str, ...]:
    """Return what identifies a row's setting, and its fields ``also``."""
    return tuple(_plain(row[name]) for name in (*SETTING, *also))


def named(row: Row, *also: str) -> str:
    """Return a row in words: algorithm, dataset, partition, clients, and its fields ``also``."""
    partition = " ".join(text for text in (row["partition"], row["partition_param"]) if text)
    clients = f"{row['clients']} clients at {float(row['participation']):.0%}" if row["participation"] else ""
    target = f"target {row['target']} %" if row["target"] else ""
    texts = [row["algorithm"], row["dataset"], partition, clients, target, *(row[name] for name in also)]
    return ", ".join(text for text in texts if text)


def printed(row: Row) -> str:
    """Return a row's number as printed: "79.52 ± 0.13", "–" where none is."""
    if not row["value"]:
        return "–"
    return row["value"] + (f" ± {row['std']}" if row["std"] else "")


def _plain(text: str) -> str:
    """Write equal numbers alike: 1.0 as 1."""
    try:
        return f"{float(text):g}"
    except ValueError:
        return text


def _same(text: str, value: Any) -> bool:
    if isinstance(value, list):
        return any(_same(text, one) for one in value)
    return _plain(text) == _plain(str(value))
