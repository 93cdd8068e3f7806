"""Contradictions in the papers: config/errata.yaml. The reference numbers remain as printed.

A note ``flag:B1`` at a printed number cites an erratum. For each of its tables, an erratum that flags no number
there appears as a note, except kind ``agreement``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.config.erratum import ERRATA
from flatfed.config.strict_yaml import read as read_yaml
from flatfed.errors import ConfigError, unknown
from flatfed.papers import reference

WHERE = "config/errata.yaml"


@dataclass(frozen=True)
class Erratum:
    """An entry: ``says`` in one line, the ids of its ``tables``, its ``kind`` in the schema.

    ``finding``: the contradicting numbers, which tests recompute, or None.
    """

    id: str
    paper: str
    kind: str
    tables: list[str]
    says: str
    finding: dict[str, Any] | None = None


class Errata:
    """The ``entries`` of config/errata.yaml; ``tables``: printed table -> its lines."""

    def __init__(self, root: str | Path):
        """Read the entries; ConfigError for a malformed entry or an unknown table."""
        document = read_yaml(Path(root) / WHERE, WHERE)
        ERRATA.check(document, WHERE)
        self.entries = [Erratum(name, **entry) for name, entry in document.items()]
        self.tables = {name: table.lines for name, table in reference.read_all(Path(root)).items()}
        for entry in self.entries:
            for index, table in enumerate(entry.tables):
                if table not in self.tables:
                    raise ConfigError(unknown("table", table, self.tables, f"{WHERE}: {entry.id}.tables[{index}]"))

    def flags(self, table: str) -> dict[str, str]:
        """Return id -> line of the errata that flag numbers of ``table``."""
        flagged, says = self._flagged(table), {entry.id: entry.says for entry in self.entries}
        for name in flagged:
            if name not in says:
                raise ConfigError(unknown("erratum", name, says, f"config/reference/{table}.csv: flag"))
        return {name: line for name, line in says.items() if name in flagged}

    def notes(self, table: str) -> list[str]:
        """Return the lines of the errata on the whole ``table``, without agreements."""
        flagged = self._flagged(table)
        return [
            f"{entry.id}: {entry.says}"
            for entry in self.entries
            if table in entry.tables and entry.id not in flagged and entry.kind != "agreement"
        ]

    def _flagged(self, table: str) -> set[str]:
        return {flag for line in self.tables.get(table, ()) for flag in reference.FLAG.findall(line.notes)}
