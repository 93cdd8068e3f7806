"""Contradictions in the papers: config/errata.yaml. The reference numbers remain as printed.

A note ``flag:B1`` at a printed number cites an erratum. For each of its tables, an erratum that flags no number
there appears as a note, except kind ``agreement``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from flatfed.config.erratum import ERRATA, Erratum
from flatfed.config.strict_yaml import read as read_yaml
from flatfed.errors import ConfigError, unknown
from flatfed.plan.reference import FLAG, Reference, read_all

WHERE = "config/errata.yaml"


class Errata:
    """The ``entries`` of config/errata.yaml by id; ``flagged``: printed table -> ids that its numbers cite."""

    def __init__(self, root: Path, references: Mapping[str, Reference] | None = None):
        """Read the entries; ConfigError for a malformed entry or an unknown table.

        ``references``: the printed tables, read from ``root`` if absent.
        """
        self.entries: dict[str, Erratum] = ERRATA.check(read_yaml(root / WHERE, WHERE), WHERE)
        self.flagged = {
            name: {flag for line in table.lines for flag in FLAG.findall(line.notes)}
            for name, table in (references or read_all(root)).items()
        }
        for name, entry in self.entries.items():
            for index, table in enumerate(entry.tables):
                if table not in self.flagged:
                    raise ConfigError(unknown("table", table, self.flagged, f"{WHERE}: {name}.tables[{index}]"))

    def flags(self, table: str) -> dict[str, str]:
        """Return id -> line of the errata that flag numbers of ``table``."""
        for name in self.flagged.get(table, ()):
            if name not in self.entries:
                raise ConfigError(unknown("erratum", name, self.entries, f"config/reference/{table}.csv: flag"))
        return {name: entry.says for name, entry in self.entries.items() if name in self.flagged.get(table, ())}

    def notes(self, table: str) -> list[str]:
        """Return the lines of the errata on the whole ``table``, without agreements."""
        return [
            f"{name}: {entry.says}"
            for name, entry in self.entries.items()
            if table in entry.tables and name not in self.flagged[table] and entry.kind != "agreement"
        ]
