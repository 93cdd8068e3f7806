"""Runs by id, and the specifications of their inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flatfed.config.table import BothScales, SeedsByScale
from flatfed.config.values import LAST_SEED
from flatfed.errors import ConfigError
from flatfed.experiment import compatibility, descriptions, lookup, scales, tuning
from flatfed.experiment.catalog import Catalog
from flatfed.experiment.experiment import Experiment
from flatfed.models import pretrained
from flatfed.runs.paths import Paths, RunIds
from flatfed.runs.run import Run


def dataset_spec(catalog: Catalog, name: str) -> dict[str, Any]:
    """Return the specification of resources/<name>; ConfigError if the dataset does not exist."""
    dataset = lookup.entry("dataset", name, catalog.datasets, "resources")
    kept = {key: getattr(dataset, key) for key in ("classes", "shape", "train", "test")}
    domains = {"domains": dataset.domains} if dataset.domains else {}
    return {"name": name, **kept, **domains, "source": catalog.sources[name]}


def weights_name(paths: Paths, name: str) -> str:
    """Return the ``name`` of pre-trained weights; ConfigError if they do not exist."""
    lookup.check("weights", name, pretrained.PUBLISHED, str(Path(paths.weights(name)).parent))
    return name


def partition_spec(experiment: Experiment, scale: str, protocol: str, split: str, seed: int) -> dict[str, Any]:
    """Return the specification of a partition; ConfigError for unknown ids, or a split that does not fit."""
    if not 1 <= seed <= LAST_SEED:
        raise ConfigError(f"results: seed {seed} is not allowed; expected 1 to {LAST_SEED}")
    scales.settings(experiment, scale, protocol, f"partitions/{protocol}/{split}/seed{seed}.npz")
    lookup.check("split", split, experiment.catalog.splits, "config/splits.yaml")
    compatibility.check(protocol, split, experiment.catalog, f"{protocol}/{split}")
    return {"seed": seed, **experiment.catalog.split_settings(scale, protocol, split).partition}


def run(experiment: Experiment, scale: str, protocol: str, split: str, algorithm: str, seed: int) -> Run:
    """Return the run; ConfigError for unknown ids, or ids that do not fit each other."""
    ids = RunIds(scale, protocol, split, algorithm, seed)
    if ids not in experiment.runs:
        scales.settings(experiment, scale, protocol, f"runs/{ids.name}/run.json")
        lookup.check_algorithm(algorithm, experiment.catalog.algorithms, "config/algorithms.yaml")
        partition_spec(experiment, scale, protocol, split, seed)
        compatibility.check_pair(protocol, split, algorithm, experiment.catalog, ids.row)
    return resolved(experiment, ids)


def resolved(experiment: Experiment, ids: RunIds) -> Run:
    """Return the run of checked ``ids``; ConfigError if the split does not fit the images on this machine."""
    if ids not in experiment.runs:
        catalog, paths = experiment.catalog, experiment.paths
        compatibility.check(ids.protocol, ids.split, catalog, ids.row)
        chosen = tuning.chosen(catalog, paths, ids) if experiment.tune else {}
        experiment.runs[ids] = descriptions.resolve(catalog, paths, ids, chosen)
    return experiment.runs[ids]


def seeds(experiment: Experiment, scale: str, protocol: str, declared: SeedsByScale | None = None) -> list[int]:
    """Return the seeds of config.yaml, else those ``declared`` by a table or figure, else the protocol's."""
    settings = scales.settings(experiment, scale, protocol)
    if isinstance(declared, BothScales):
        declared = getattr(declared, scale)
    return experiment.config.get("seeds") or declared or settings.seeds
