"""The loaded configuration: what it declares and requests, its runs, and what of it exists at a scale."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from flatfed.config.protocol import Settings
from flatfed.config.request import Request
from flatfed.config.table import BothScales, SeedsByScale
from flatfed.config.values import LAST_SEED
from flatfed.data.keys import PartitionSpecification, check_partition
from flatfed.errors import ConfigError
from flatfed.plan import checks, data_sources, lookup
from flatfed.plan.catalog import Catalog
from flatfed.plan.figures import Figure
from flatfed.plan.reference import Errata, Reference
from flatfed.plan.tables import Table
from flatfed.runs.paths import SCALES, Paths, RunIds
from flatfed.runs.run import Run
from flatfed.runs.store import Store


class Requested(NamedTuple):
    """Requested tables, each with the ids of its columns (None: all), and figures."""

    tables: dict[str, list[str] | None]
    figures: list[str]


@dataclass(frozen=True, eq=False)
class Experiment:
    """The declarations of config/ and the requests of config.yaml.

    ``request``: config.yaml with command-line overrides. ``environment``: variables that pass the folders
    of the user's files to jobs. ``store``: the folders that may have its runs. A protocol without ``preview:`` has the
    paper scale alone, and so have its tables and figures.
    """

    root: Path
    request: Request
    paths: Paths
    catalog: Catalog
    references: Mapping[str, Reference]
    errata: Errata
    tables: Mapping[str, Table]
    figures: Mapping[str, Figure]
    requested: Requested
    environment: Mapping[str, str]
    store: Store

    @property
    def scale(self) -> str:
        """The requested scale."""
        return self.request.scale

    @property
    def everything(self) -> Requested:
        """All declared tables, with the columns of config.yaml, and figures."""
        return Requested(self.with_columns(self.tables), list(self.figures))

    def seeds(self, scale: str, protocol: str, declared: SeedsByScale | None = None) -> list[int]:
        """Return the seeds of config.yaml, else those ``declared`` by a table or figure, else the protocol's."""
        settings = self.settings(scale, protocol)
        if isinstance(declared, BothScales):
            declared = getattr(declared, scale)
        return self.request.seeds or declared or settings.seeds

    def fetched_datasets(self) -> str:
        """Return the pattern of the datasets that may be fetched: without those of :func:`data_sources.kept`."""
        specs = map(self.catalog.dataset_spec, self.catalog.datasets)
        kept = data_sources.kept(specs, self.request.data, self.paths)
        return f"(?!(?:{'|'.join(map(re.escape, kept))})/)[^/]+" if kept else "[^/]+"

    def partition_spec(self, scale: str, protocol: str, split: str, seed: int) -> PartitionSpecification:
        """Return the specification of a partition; ConfigError for unknown ids, or a split that does not fit."""
        if not 1 <= seed <= LAST_SEED:
            raise ConfigError(f"results: seed {seed} is not allowed; expected 1 to {LAST_SEED}")
        self.settings(scale, protocol, f"partitions/{protocol}/{split}/seed{seed}.npz")
        lookup.check("split", split, self.catalog.splits, "config/splits.yaml")
        checks.check_fit(self.catalog, protocol, split)
        partition = self.catalog.split_settings(scale, protocol, split).partition
        return check_partition({**partition.as_written(), "seed": seed})

    @functools.cache  # noqa: B019, an experiment lives as long as its process
    def run(self, scale: str, protocol: str, split: str, algorithm: str, seed: int) -> Run:
        """Return the run; ConfigError for unknown ids, or ids that do not fit each other."""
        ids = RunIds(scale, protocol, split, algorithm, seed)
        self.settings(scale, protocol, f"runs/{ids.name}/run.json")
        lookup.check_algorithm(algorithm, self.catalog.algorithms, "config/algorithms.yaml")
        self.partition_spec(scale, protocol, split, seed)
        checks.check_pair(self.catalog, protocol, split, algorithm)
        return self.resolved(ids)

    @functools.cache  # noqa: B019
    def resolved(self, ids: RunIds) -> Run:
        """Return the run of checked ``ids``; ConfigError if the split does not fit the images on this machine."""
        checks.check_fit(self.catalog, ids.protocol, ids.split)
        return self.catalog.resolve(self.paths, ids)

    @functools.cache  # noqa: B019
    def shown(self, ids: RunIds, analysis: str = "") -> Run:
        """Return the run of checked ``ids`` as tables and figures read it, where the store finds it.

        ``analysis``: the file of its analyses that they read.

        :raises DataError: as :meth:`Store.find`.
        """
        run = self.resolved(ids)
        return self.store.find(run, analysis, self._images(run.dataset))

    @functools.cache  # noqa: B019
    def _images(self, dataset: str) -> str | None:
        """Return the digest of the images of a dataset, None if they are not here."""
        return data_sources.digest(self.catalog.sources[dataset], self.paths.manifest(dataset))

    def forcing(self, files: Collection[str]) -> Experiment:
        """Return the experiment of a call of Snakemake that trains the runs of these ``files``, or "train", all."""
        return replace(self, store=Store(self.store.folders, forced=files))

    def with_columns(self, names: Iterable[str]) -> dict[str, list[str] | None]:
        """Return the tables ``names`` with their requested columns, None for all."""
        return {name: self.requested.tables.get(name) for name in names}

    def scale_of(self, names: Iterable[str]) -> str:
        """Return the requested scale, or "paper" if none of the tables ``names`` exists at it."""
        requested = Requested(dict.fromkeys(name for name in names if name in self.tables), [])
        return "paper" if requested.tables and not self.existing(self.scale, requested).tables else self.scale

    def settings(self, scale: str, protocol: str, output: str = "") -> Settings:
        """Return all settings of ``protocol`` at ``scale``; ConfigError, with the ``output``, if one does not exist."""
        declared = lookup.entry("protocol", protocol, self.catalog.protocols, "config/protocols")
        if scale in SCALES and scale not in declared.scales:
            raise ConfigError(self._why_none(scale, [protocol], output or f"runs/{protocol}"))
        return lookup.entry("scale", scale, declared.scales, "results")

    def table_at(self, scale: str, name: str, columns: list[str] | None) -> Table:
        """Return table ``name`` with its ``columns`` (None: all); ConfigError if one does not exist at this scale."""
        lookup.check("scale", scale, SCALES, "results")
        table = lookup.entry("table", name, self.tables, "config/tables")
        for column in columns or ():
            lookup.check("column", column, table.columns, f"table {name}")
        if reason := self._why_no_table(scale, name, columns):
            raise ConfigError(reason)
        shown = table.of_columns(columns)
        return shown if scale == "paper" else shown.in_preview()

    def figure_at(self, scale: str, name: str) -> Figure:
        """Return figure ``name`` with the titles of ``scale``; ConfigError if it does not exist at this scale."""
        lookup.check("scale", scale, SCALES, "results")
        figure = lookup.entry("figure", name, self.figures, "config/figures")
        if reason := self._why_no_figure(scale, name):
            raise ConfigError(reason)
        return figure if scale == "paper" else figure.in_preview(self.catalog)

    def existing(self, scale: str, requested: Requested) -> Requested:
        """Return the ``requested`` tables and figures that exist at ``scale``."""
        tables = {name: of for name, of in requested.tables.items() if not self._why_no_table(scale, name, of)}
        return Requested(tables, [name for name in requested.figures if not self._why_no_figure(scale, name)])

    def all_at(self, scale: str) -> Requested:
        """Return all tables and figures of ``scale``."""
        return self.existing(scale, self.everything)

    def left_out(self, scale: str, requested: Requested) -> list[str]:
        """Return a line for each ``requested`` table and figure that does not exist at ``scale``."""
        reasons = [self._why_no_table(scale, *entry) for entry in requested.tables.items()]
        reasons += [self._why_no_figure(scale, name) for name in requested.figures]
        return [f"Left out: {line}" for line in reasons if line]

    def _why_no_table(self, scale: str, name: str, columns: list[str] | None) -> str:
        table, output = self.tables[name], f"tables/{name}.md"
        only = table.document.scales or SCALES
        if scale not in only:
            return self._instead(scale, output, f"{table.file} has `scales: [{', '.join(only)}]`", only[0])
        return self._why_none(scale, table.of_columns(columns).protocols, output)

    def _why_no_figure(self, scale: str, name: str) -> str:
        return self._why_none(scale, self.figures[name].protocols, f"figures/{name}.png")

    def _why_none(self, scale: str, protocols: Iterable[str], output: str) -> str:
        declared = (self.catalog.protocols[name] for name in protocols)
        where = [f"{protocol.id} ({protocol.file})" for protocol in declared if scale not in protocol.scales]
        if not where:
            return ""
        has = f"protocol {where[0]} has" if len(where) == 1 else f"protocols {' and '.join(where)} have"
        return self._instead(scale, output, f"{has} no `{scale}:`", "paper")

    def _instead(self, scale: str, output: str, why: str, other: str) -> str:
        results = self.paths.results
        return f"{results}/{scale}/{output}: {why}, so it does not exist; request {results}/{other}/{output}"
