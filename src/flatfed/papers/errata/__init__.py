"""The papers' own contradictions, as data: config/errata.yaml, recomputed from config/reference.

Nothing is corrected in the reference numbers. An erratum says which tables it concerns; where the printed numbers show
it, a check of ``recomputed`` or ``sentences`` finds it in them again. A note ``flag:B1`` beside a printed number names
the erratum of that cell; an erratum that no number is flagged with stands under its tables as a whole.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from flatfed import schemas
from flatfed.errors import ConfigError, unknown
from flatfed.papers.errata.numbers import Numbers
from flatfed.papers.errata.recomputed import Finding
from flatfed.papers.errata.sentences import CHECKS
from flatfed.papers.reference import FLAG
from flatfed.strict_yaml import read as read_yaml

WHERE = "config/errata.yaml"


@dataclass(frozen=True)
class Erratum:
    """One entry: ``says`` in one line, ``tables`` it concerns (ids), ``kind`` of schema, ``check`` that recomputes it.

    ``finding`` is what the check found in the printed numbers, None where nothing can be recomputed.
    """

    id: str
    paper: str
    kind: str
    tables: tuple[str, ...]
    says: str
    finding: Finding | None


class Errata:
    """All entries of config/errata.yaml under ``root``, in the file's order."""

    def __init__(self, root: str | Path):
        """Read and check the entries.

        :raises ConfigError: an entry is malformed, or names a table or check that does not exist.
        """
        self.document: dict[str, dict[str, Any]] = read_yaml(Path(root) / WHERE, WHERE)
        schemas.validate(self.document, "errata", WHERE)
        self.numbers = Numbers(root)
        for name, entry in self.document.items():
            for place, table in enumerate(entry["tables"]):
                if table not in self.numbers.tables:
                    raise ConfigError(unknown("table", table, self.numbers.tables, f"{WHERE}: {name}.tables[{place}]"))
            if "check" in entry:
                _check_arguments(entry["check"], f"{WHERE}: {name}.check")

    @cached_property
    def entries(self) -> list[Erratum]:
        """All errata, recomputed; ConfigError for a check whose arguments mean nothing in the printed tables."""
        result = []
        for name, entry in self.document.items():
            check = dict(entry.get("check", {}))
            kind = check.pop("name", None)
            try:
                finding = CHECKS[kind](self.numbers, **check) if kind else None
            except ConfigError as error:
                raise ConfigError(f"{WHERE}: {name}.check ({kind}): {error}") from None
            except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
                given = ", ".join(f"{key}: {value}" for key, value in check.items())
                raise ConfigError(
                    f"{WHERE}: {name}.check ({kind}): cannot be recomputed with {{{given}}}: {error!r}"
                ) from None
            result.append(Erratum(name, entry["paper"], entry["kind"], tuple(entry["tables"]), entry["says"], finding))
        return result

    def flags(self, table: str) -> dict[str, str]:
        """Return id -> line of the errata that single numbers of ``table`` are flagged with."""
        flagged = self._flagged(table)
        for name in flagged:
            if name not in self.document:
                raise ConfigError(unknown("erratum", name, self.document, f"config/reference/{table}.csv: flag"))
        return {name: self.document[name]["says"] for name in self.document if name in flagged}

    def notes(self, table: str) -> list[str]:
        """Return the lines of the errata that concern ``table`` as a whole; agreements found are none."""
        flagged = self._flagged(table)
        return [
            f"{name}: {entry['says']}"
            for name, entry in self.document.items()
            if table in entry["tables"] and name not in flagged and entry["kind"] != "agreement"
        ]

    def _flagged(self, table: str) -> set[str]:
        return {flag for line in self.numbers.tables.get(table, ()) for flag in FLAG.findall(line.notes)}


def _check_arguments(check: dict[str, Any], where: str) -> None:
    """Refuse a check that does not exist, lacks an argument, or has one that is none of its own."""
    kind, given = check["name"], [key for key in check if key != "name"]
    if kind not in CHECKS:
        raise ConfigError(unknown("check", kind, CHECKS, where))
    known = dict(list(inspect.signature(CHECKS[kind]).parameters.items())[1:])  # without the numbers
    for key in given:
        if key not in known:
            raise ConfigError(unknown("key", key, known, f"{where} ({kind})"))
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in given:
            raise ConfigError(f"{where}: key {key!r} is missing; {kind} needs it")
