"""Runs by id, and the specifications of their inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flatfed.config.table import BothScales, SeedsByScale
from flatfed.config.values import LAST_SEED
from flatfed.data.keys import DatasetSpecification, PartitionSpecification
from flatfed.errors import ConfigError
from flatfed.models import pretrained
from flatfed.plan import lookup, tuning
from flatfed.plan.catalog import Catalog
from flatfed.plan.experiment import Experiment
from flatfed.runs.paths import Paths, RunIds
from flatfed.runs.run import Run

#: Kind of analysis -> scale -> default settings, which a protocol's ``analysis:`` overrides.
ANALYSES: dict[str, dict[str, dict[str, float | str]]] = {
    "surface": {
        "paper": {"grid": 51, "range": 1.0, "set": "train", "images": 4096},
        "preview": {"grid": 21, "range": 1.0, "set": "train", "images": 500},
    },
    "hessian": {
        "paper": {"images": 4096, "top": 5, "vectors": 256},
        "preview": {"images": 500, "top": 2, "vectors": 64},
    },
}


def dataset_spec(catalog: Catalog, name: str) -> DatasetSpecification:
    """Return the specification of resources/<name>; ConfigError if the dataset does not exist."""
    dataset = lookup.entry("dataset", name, catalog.datasets, "resources")
    kept = dataset.model_dump(exclude_none=True, include={"classes", "shape", "train", "test", "domains"})
    return DatasetSpecification(name=name, **kept, source=catalog.sources[name])


def weights_name(paths: Paths, name: str) -> str:
    """Return the ``name`` of pre-trained weights; ConfigError if they do not exist."""
    lookup.check("weights", name, pretrained.PUBLISHED, str(Path(paths.weights(name)).parent))
    return name


def partition_spec(experiment: Experiment, scale: str, protocol: str, split: str, seed: int) -> PartitionSpecification:
    """Return the specification of a partition; ConfigError for unknown ids, or a split that does not fit."""
    if not 1 <= seed <= LAST_SEED:
        raise ConfigError(f"results: seed {seed} is not allowed; expected 1 to {LAST_SEED}")
    experiment.settings(scale, protocol, f"partitions/{protocol}/{split}/seed{seed}.npz")
    lookup.check("split", split, experiment.catalog.splits, "config/splits.yaml")
    experiment.catalog.check_fit(protocol, split, f"{protocol}/{split}")
    partition = experiment.catalog.split_settings(scale, protocol, split).partition
    return PartitionSpecification(seed=seed, **partition.as_written())


def run(experiment: Experiment, scale: str, protocol: str, split: str, algorithm: str, seed: int) -> Run:
    """Return the run; ConfigError for unknown ids, or ids that do not fit each other."""
    ids = RunIds(scale, protocol, split, algorithm, seed)
    if ids not in experiment.runs:
        experiment.settings(scale, protocol, f"runs/{ids.name}/run.json")
        lookup.check_algorithm(algorithm, experiment.catalog.algorithms, "config/algorithms.yaml")
        partition_spec(experiment, scale, protocol, split, seed)
        experiment.catalog.check_pair(protocol, split, algorithm, ids.row)
    return resolved(experiment, ids)


def resolved(experiment: Experiment, ids: RunIds) -> Run:
    """Return the run of checked ``ids``; ConfigError if the split does not fit the images on this machine."""
    if ids not in experiment.runs:
        catalog, paths = experiment.catalog, experiment.paths
        catalog.check_fit(ids.protocol, ids.split, ids.row)
        chosen = tuning.chosen(catalog, paths, ids) if experiment.request.tune else {}
        experiment.runs[ids] = catalog.run(paths, ids, chosen)
    return experiment.runs[ids]


def seeds(experiment: Experiment, scale: str, protocol: str, declared: SeedsByScale | None = None) -> list[int]:
    """Return the seeds of config.yaml, else those ``declared`` by a table or figure, else the protocol's."""
    settings = experiment.settings(scale, protocol)
    if isinstance(declared, BothScales):
        declared = getattr(declared, scale)
    return experiment.request.seeds or declared or settings.seeds


def analysis_settings(catalog: Catalog, kind: str, scale: str, protocol: str) -> dict[str, float | str]:
    """Return the settings of analysis ``kind`` in ``protocol`` at ``scale``."""
    analysis = catalog.settings(scale, protocol).analysis
    own = getattr(analysis, kind, None)
    return {**ANALYSES[kind][scale], **(own.as_written() if own else {})}


def analysis_options(catalog: Catalog, kind: str, scale: str, protocol: str, **overrides: Any) -> list[str]:
    """Return the settings with ``overrides`` as command-line options."""
    values = {**analysis_settings(catalog, kind, scale, protocol), **overrides}
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]
