"""The experiment: what config/ declares and what config.yaml asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from flatfed.errors import ConfigError
from flatfed.experiment.catalog import Catalog
from flatfed.experiment.known import Entries
from flatfed.experiment.model import Asked, Figure, Table
from flatfed.papers.errata import Errata
from flatfed.papers.reference import Reference
from flatfed.runs.places import Places, RunIds
from flatfed.runs.run import Run


@dataclass(frozen=True, eq=False)
class Experiment:
    """What config/ declares and what config.yaml asks for. Functions of this room resolve it into runs and cells.

    ``config`` is the content of config.yaml with what the command line puts in its place; ``asked`` what it asks for.
    ``environment``: variables that hand the folders of the user's own files to jobs. ``runs``: those resolved so far.
    """

    root: Path
    config: Mapping[str, Any]
    places: Places
    catalog: Catalog
    references: Mapping[str, Reference]
    tables: Entries[Table]
    figures: Entries[Figure]
    asked: Asked
    environment: Mapping[str, str]
    runs: dict[RunIds, Run] = field(default_factory=dict, init=False, repr=False)

    @property
    def scale(self) -> str:
        """The scale that config.yaml asks for."""
        return self.config["scale"]

    @property
    def tune(self) -> bool:
        """Whether runs take the choices of tuning."""
        return self.config.get("tune", False)

    @property
    def everything(self) -> Asked:
        """All tables and figures."""
        return Asked([(name, None) for name in self.tables], list(self.figures))

    @cached_property
    def errata(self) -> Errata:
        """The papers' contradictions: config/errata.yaml."""
        return Errata(self.root)

    def check(self) -> None:
        """Raise a ConfigError with all mistakes in the files, one line per file and key."""
        of = self.catalog
        entries = (of.datasets, of.splits, of.algorithms, of.protocols, self.tables, self.figures)
        messages = [message for each in entries for message in each.refused.values()]
        if first := {tuple(message.split(": ")[:2]): message for message in reversed(messages)}:
            raise ConfigError("\n".join(reversed(first.values())))
