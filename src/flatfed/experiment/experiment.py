"""The type of a loaded configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from flatfed.experiment.catalog import Catalog
from flatfed.experiment.figures import Figure
from flatfed.experiment.lookup import Entries, raise_errors
from flatfed.experiment.model import Requested
from flatfed.experiment.tables import Table
from flatfed.papers.errata import Errata
from flatfed.papers.reference import Reference
from flatfed.runs.paths import Paths, RunIds
from flatfed.runs.run import Run


@dataclass(frozen=True, eq=False)
class Experiment:
    """The declarations of config/ and the requests of config.yaml.

    ``config``: the content of config.yaml with command-line overrides. ``environment``: variables that pass the folders
    of the user's files to jobs. ``runs``: cache of resolved runs.
    """

    root: Path
    config: Mapping[str, Any]
    paths: Paths
    catalog: Catalog
    references: Mapping[str, Reference]
    tables: Entries[Table]
    figures: Entries[Figure]
    requested: Requested
    environment: Mapping[str, str]
    runs: dict[RunIds, Run] = field(default_factory=dict, init=False, repr=False)

    @property
    def scale(self) -> str:
        """The requested scale."""
        return self.config["scale"]

    @property
    def tune(self) -> bool:
        """Whether runs use the choices of tuning."""
        return self.config.get("tune", False)

    @property
    def everything(self) -> Requested:
        """All declared tables and figures."""
        return Requested([(name, None) for name in self.tables], list(self.figures))

    @cached_property
    def errata(self) -> Errata:
        """The contradictions of the papers: config/errata.yaml."""
        return Errata(self.root)

    def check(self) -> None:
        """Raise a ConfigError with the reasons of all entries whose data are missing."""
        raise_errors([*self.catalog.sections, self.tables, self.figures], missing=True)
