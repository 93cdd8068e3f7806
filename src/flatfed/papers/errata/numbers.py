"""The printed numbers as lines, for the checks of the errata: chosen by their fields, and put into words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flatfed.errors import ConfigError, unknown
from flatfed.papers import reference
from flatfed.papers.reference import Line, comparable

#: Fields that name a setting; the metric, its unit, the variant and the target come beside them.
SETTING = ("dataset", "partition", "partition_param", "clients", "participation", "algorithm")


class Numbers:
    """config/reference/*.csv under ``root``; ``tables``: table id -> its lines."""

    def __init__(self, root: str | Path):
        self.tables = {name: table.lines for name, table in reference.read_all(Path(root)).items()}

    def lines(self, table: str, **fields: Any) -> Iterator[Line]:
        """Yield the lines of ``table`` whose fields are ``fields``; a list stands for any one of its values.

        :raises ConfigError: there is no such table, or no such field in it.
        """
        if table not in self.tables:
            raise ConfigError(unknown("table", table, self.tables, "table"))
        for line in self.tables[table]:
            if missing := fields.keys() - vars(line).keys():
                raise ConfigError(unknown("key", min(missing), vars(line), f"table {table}"))
            if all(_is(getattr(line, name), value) for name, value in fields.items()):
                yield line

    def line(self, table: str, **fields: Any) -> Line:
        """Return the only line of ``table`` with these fields; ConfigError where there is none or more than one."""
        found = list(self.lines(table, **fields))
        if len(found) != 1:
            wanted = ", ".join(f"{name}: {value}" for name, value in fields.items())
            raise ConfigError(f"{len(found)} rows of config/reference/{table}.csv, not one, have {{{wanted}}}")
        return found[0]

    def number(self, table: str, **fields: Any) -> float:
        """Return the number of the only line of ``table`` with these fields."""
        return self.line(table, **fields).number


def setting(line: Line, *also: str) -> tuple[float | str, ...]:
    """Return what identifies a line's setting, and its fields ``also``, to be compared with that of another line."""
    return tuple(comparable(getattr(line, name)) for name in (*SETTING, *also))


def subject(line: Line, *also: str) -> str:
    """Return in words what a line is of: algorithm, dataset, partition, clients, and its fields ``also``."""
    partition = " ".join(text for text in (line.partition, line.partition_param) if text)
    clients = f"{line.clients} clients at {float(line.participation):.0%}" if line.participation else ""
    target = f"target {line.target} %" if line.target else ""
    texts = [line.algorithm, line.dataset, partition, clients, target, *(getattr(line, name) for name in also)]
    return ", ".join(text for text in texts if text)


def printed(line: Line) -> str:
    """Return a line's number as printed: "79.52 ± 0.13", "–" where none is."""
    if not line.value:
        return "–"
    return line.value + (f" ± {line.std}" if line.std else "")


def _is(text: str, value: Any) -> bool:
    """Return whether a field is ``value``, or one of its values where it is a list."""
    values = value if isinstance(value, list) else [value]
    return comparable(text) in [comparable(each) for each in values]
