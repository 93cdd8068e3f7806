"""Outputs, inputs and parameters of the jobs of a call of Snakemake, from the ids in their paths."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flatfed.data import schemes
from flatfed.data.keys import DatasetSpecification, PartitionSpecification
from flatfed.plan import Experiment, Run, at_scale, data_sources, number
from flatfed.runs import versions
from flatfed.tables import set_up

#: Folder with the listings of the files of sources, one JSON file per dataset.
LISTINGS = Path(".snakemake", "flatfed-data")


def as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def request(paper: int, preview: int) -> Callable[[Any, int], int]:
    """Return the function of wildcards and attempt that asks a cluster for minutes or megabytes at each scale.

    Attempts after the first ask for twice as much, and no more: they also follow preemptions.
    """

    def of_attempt(wildcards: Any, attempt: int) -> int:
        return min(attempt, 2) * (paper if wildcards.scale == "paper" else preview)

    return of_attempt


class Jobs:
    """The jobs of an experiment.

    Methods take the wildcards of a rule by name. Parameters are JSON texts, numbers or lists of words.
    """

    def __init__(self, experiment: Experiment):
        self.experiment = experiment

    def outputs(self, every: bool) -> list[str]:
        """Return the files of the requested tables and figures and the report, or of ``every`` table and figure."""
        experiment, scale = self.experiment, self.experiment.scale
        if every:
            targets = experiment.all_at(scale)
            return experiment.paths.outputs(scale, targets.tables, targets.figures)
        return [*self._shown_in_report(scale), experiment.paths.report(scale)]

    def left_out(self, every: bool) -> list[str]:
        """Return a line for each of the requested outputs that does not exist at this scale."""
        experiment = self.experiment
        return experiment.left_out(experiment.scale, experiment.everything if every else experiment.requested)

    def dataset_spec(self, dataset: str) -> str:
        return as_json(self.experiment.catalog.dataset_spec(dataset).as_written())

    def source_files(self, dataset: str) -> tuple[list[str], bool]:
        """Return the single files of a dataset's source, and whether at most their times changed."""
        spec, first, present = self._source(dataset)
        return [*data_sources.files(spec.source).values()], first != present

    def source_digest(self, dataset: str) -> str | None:
        """Return a digest of the files of a source: Snakemake misses a new file that is older than the old one."""
        _, first, _ = self._source(dataset)
        return first

    @functools.cache  # noqa: B019, the jobs live as long as their process
    def _source(self, dataset: str) -> tuple[DatasetSpecification, str | None, str | None]:
        spec = self.experiment.catalog.dataset_spec(dataset)
        return spec, *data_sources.listings(spec.source, LISTINGS / f"{dataset}.json", spec.domains)

    def partition(self, scale: str, protocol: str, split: str, seed: str) -> PartitionSpecification:
        return self.experiment.partition_spec(scale, protocol, split, int(seed))

    def partition_spec(self, **ids: str) -> str:
        return as_json(self.partition(**ids).as_written())

    def partition_version(self, **ids: str) -> int:
        return schemes.VERSIONS[self.partition(**ids).scheme]

    def run(self, scale: str, protocol: str, split: str, algorithm: str, seed: str = "", on: str = "") -> Run:
        """Return a run; by default that of the protocol's first seed. ``on`` is of its loss surface."""
        first = seed or self.experiment.seeds(scale, protocol)[0]
        return self.experiment.run(scale, protocol, split, algorithm, int(first))

    def run_weights(self, **ids: str) -> list[str]:
        """Return the file of a run's pre-trained weights; none if it is missing, and the training says so."""
        weights = self.run(**ids).weights
        return [weights] if weights and Path(weights).exists() else []

    def run_config(self, **ids: str) -> str:
        """Return all settings of a run."""
        return as_json(self.run(**ids).config.as_json())

    def run_settings(self, **ids: str) -> str:
        """Return the settings that decide the results of a run: a change of others reruns nothing."""
        return as_json(self.run(**ids).config.deciding)

    def timing_settings(self, **ids: str) -> str:
        return as_json(self.run(**ids).config.deciding_seconds)

    def run_versions(self, **ids: str) -> str:
        return as_json(versions.of_run(self.run(**ids).config))

    def threads(self, scale: str, **_: str) -> int:
        return 1 if scale == "preview" else self.experiment.request.threads or 1

    def hessian(self, scale: str, protocol: str, seed: str, **_: str) -> list[str]:
        """Return the arguments of `flatfed hessian` for its settings."""
        options = self.experiment.catalog.analysis_options("hessian", scale, protocol)
        return [*options, "--seed", seed]

    def surface(self, scale: str, protocol: str, on: str, **_: str) -> list[str]:
        """Return the arguments of `flatfed surface` for its settings; ``on``: "", ".train" or ".test"."""
        images = {"set": on.removeprefix(".")} if on else {}
        return self.experiment.catalog.analysis_options("surface", scale, protocol, **images)

    def inputs(self, kind: str, **ids: str) -> Sequence[str]:
        """Return the files that a job of seconds reads; ``kind``: "table", "cell", "figure" or "report"."""
        return self._shown(kind, **ids)[1]

    @functools.cache  # noqa: B019
    def digest(self, kind: str, **ids: str) -> str:
        """Return a digest of what a job of seconds shows."""
        return number.digest(self._shown(kind, **ids)[0])

    def printed(self, **ids: str) -> bool:
        """Return whether a table shows the paper's numbers."""
        return self._shown("table", **ids)[0].printed

    def caption(self, **ids: str) -> list[str]:
        """Return kind and set-up of a figure."""
        figure, _ = self._shown("figure", **ids)
        return [figure.kind, set_up.setting(figure)]

    @functools.cache  # noqa: B019
    def _shown(self, kind: str, scale: str, **ids: str) -> tuple[Any, Sequence[str]]:
        """Return what a job of seconds shows and the files that it reads."""
        experiment = self.experiment
        if kind in ("cell", "table"):
            name = ids["table"]
            columns = [ids["column"]] if kind == "cell" else experiment.requested.tables.get(name)
            table = at_scale.table(experiment, scale, name, columns, ids.get("row"))
            return table, number.inputs(table.numbers)
        if kind == "figure":
            figure = at_scale.figure(experiment, scale, ids["figure"])
            return figure, figure.inputs
        return at_scale.report(experiment, scale), self._shown_in_report(scale)

    def _shown_in_report(self, scale: str) -> list[str]:
        targets = self.experiment.existing(scale, self.experiment.requested)
        return self.experiment.paths.outputs(scale, targets.tables, targets.figures)
