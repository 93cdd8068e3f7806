"""The catalog of all declarations in config/ and of the user: what ids resolve to."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from flatfed import algorithms as registry
from flatfed import models
from flatfed.config.algorithm import AlgorithmDocument
from flatfed.config.datasets import DatasetDocument, Source
from flatfed.config.protocol import Settings
from flatfed.config.split import Split
from flatfed.data.keys import INHERITED, DatasetSpecification, PartitionSettings
from flatfed.plan import lookup
from flatfed.plan.protocols import ResolvedProtocol, of_algorithm
from flatfed.runs.paths import Paths, RunIds, without_label
from flatfed.runs.run import Run
from flatfed.runs.run_config import RunConfig, SamplingSettings, TopologySettings

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


@dataclass(frozen=True)
class SplitSettings:
    """A split as in a run's settings; ``images``: the number of training images."""

    partition: PartitionSettings
    sampling: SamplingSettings
    topology: TopologySettings | None
    images: int

    def steps(self, batch_size: int, local_epochs: int | None, local_steps: int | None) -> int:
        """Return the gradient steps n K of a round: n the expected number of active clients.

        K = E ceil(n_i / B), or ``local_steps``.
        """
        clients, sampling = self.partition.clients, self.sampling
        active = clients if sampling.scheme == "all" else max(1, round(clients * sampling.fraction))
        return active * (local_steps or local_epochs * -(-(self.images // clients) // batch_size))


def topology(entry: Split, clients_times: float = 1) -> TopologySettings | None:
    """Return the graph of a split's ``entry``, or None; ``clients_times`` multiplies the neighbours."""
    if not entry.topology:
        return None
    neighbours = {"neighbours": max(2, round(entry.neighbours * clients_times))} if entry.neighbours else {}
    return TopologySettings(graph=entry.topology, **neighbours)


@dataclass(frozen=True, eq=False)
class Catalog:
    """All valid declarations by id; protocols include their labelled variants.

    ``sources``: dataset -> its source on this machine. ``split_places``: split -> file and key of its declaration.
    """

    datasets: dict[str, DatasetDocument]
    splits: dict[str, Split]
    algorithms: dict[str, AlgorithmDocument]
    protocols: dict[str, ResolvedProtocol]
    sources: dict[str, Source]
    split_places: dict[str, str]

    def settings(self, scale: str, protocol: str) -> Settings:
        """Return all settings of ``protocol`` at ``scale``."""
        return self.protocols[protocol].scales[scale]

    def dataset(self, scale: str, protocol: str) -> DatasetDocument:
        """Return the dataset that ``protocol`` uses at ``scale``."""
        return self.datasets[self.settings(scale, protocol).dataset]

    def dataset_spec(self, name: str) -> DatasetSpecification:
        """Return the specification of resources/<name>; ConfigError if the dataset does not exist."""
        dataset = lookup.entry("dataset", name, self.datasets, "resources")
        kept = dataset.model_dump(exclude_none=True, include={"classes", "shape", "train", "test", "domains"})
        return DatasetSpecification(name=name, **kept, source=self.sources[name])

    def analysis_settings(self, kind: str, scale: str, protocol: str) -> dict[str, float | str]:
        """Return the settings of analysis ``kind`` in ``protocol`` at ``scale``."""
        own = getattr(self.settings(scale, protocol).analysis, kind, None)
        return {**ANALYSES[kind][scale], **(own.as_written() if own else {})}

    def analysis_options(self, kind: str, scale: str, protocol: str, **overrides: Any) -> list[str]:
        """Return the settings with ``overrides`` as command-line options."""
        values = {**self.analysis_settings(kind, scale, protocol), **overrides}
        return [word for name, value in values.items() for word in (f"--{name}", str(value))]

    def label(self, row: str) -> str:
        """Return the name of an algorithm or variant in tables and figures."""
        return self.algorithms[row].label

    @functools.lru_cache(4096)  # noqa: B019, a catalog lives as long as its process
    def hyperparameters(self, scale: str, protocol: str, row: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """As :func:`protocols.of_algorithm`."""
        return of_algorithm(self.settings(scale, protocol), row, self.algorithms[row])

    @functools.lru_cache(4096)  # noqa: B019
    def split_settings(self, scale: str, protocol: str, split: str) -> SplitSettings:
        """Return the partition, client sampling and topology of ``split``.

        At preview scale the protocol's factors multiply clients and participation. The classes per client shrink with
        the number of classes (10 of 100 are 2 of 20). A held-out domain keeps its index.
        """
        entry, settings = self.splits[split], self.settings(scale, protocol)
        dataset, printed = self.dataset(scale, protocol), self.dataset("paper", protocol)
        scheme, classes = entry.scheme, dataset.classes
        clients = entry.clients if scheme != "domain" else entry.clients_per_domain
        if scheme != "central":
            clients = max(1, round(clients * settings.clients_times))
        partition = entry.model_dump(include=PartitionSettings.model_fields.keys() - {"images_of"})
        if scheme == "domain":
            partition |= {"clients_per_domain": clients, "held_out": printed.domains.index(entry.domain)}
            clients *= len(dataset.domains) - 1
        elif "alpha" in partition:
            partition["alpha"] = float(entry.alpha)
        elif scheme == "pathological":
            partition["classes_per_client"] = max(1, round(entry.classes_per_client * classes / printed.classes))
        elif scheme == "central" and entry.images_of:
            pooled = self.split_settings(scale, protocol, entry.images_of).partition
            partition["images_of"] = pooled.model_dump(exclude_unset=True, exclude=INHERITED)
        if settings.client_test_images:
            partition["client_test"] = settings.client_test_images
        partition |= {"dataset": settings.dataset, "classes": classes, "clients": clients}
        fraction = min(1.0, round(entry.participation * settings.participation_times, 10))
        return SplitSettings(
            PartitionSettings.of_split(partition),
            SamplingSettings(scheme=entry.sampling, fraction=fraction, sampler="keyed"),
            topology(entry, settings.clients_times),
            dataset.train,
        )

    def resolve(self, paths: Paths, ids: RunIds) -> Run:
        """Return the run of valid ``ids``."""
        config = self._config_of_row(replace(ids, seed=0))
        weights = config.model.weights
        return Run(
            **vars(ids),
            path=paths.run(ids),
            analysis_folder=paths.analyses(ids),
            dataset=config.dataset.name,
            partition=paths.partition(ids.scale, ids.protocol, ids.split, ids.seed),
            config=config.model_copy(update={"seed": ids.seed}),
            weights=paths.weights(weights) if weights else None,
            analyses={kind: self.analysis_settings(kind, ids.scale, ids.protocol) for kind in ANALYSES},
            paths=paths,
        )

    @functools.lru_cache(4096)  # noqa: B019
    def _config_of_row(self, ids: RunIds) -> RunConfig:
        """Return the settings that the seeds of a row share."""
        scale, protocol, split = ids.scale, ids.protocol, ids.split
        settings, dataset = self.settings(scale, protocol), self.dataset(scale, protocol)
        resolved_split, model = self.split_settings(scale, protocol, split), settings.model
        training, parameters = self.hyperparameters(scale, protocol, ids.algorithm)
        if reference := self.splits[split].related.get("steps_of"):  # a round has the steps of the reference split
            federated = self.split_settings(scale, protocol, reference)
            length = training["batch_size"], training.get("local_epochs"), training.get("local_steps")
            training = {**training, "local_steps": federated.steps(*length)}
        options = models.check_options(model.name, model.options or {}, protocol)
        return RunConfig(
            format=1,
            **vars(ids),
            dataset={"name": settings.dataset, **dataset.model_dump(include={"classes", "shape", "mean", "std"})},
            partition=resolved_split.partition,
            sampling=resolved_split.sampling,
            **({"topology": resolved_split.topology} if resolved_split.topology else {}),
            model={**model.as_written(), "options": options},
            **training,
            update={"name": without_label(ids.algorithm), "params": parameters},
            evaluation=settings.evaluation.model_dump(include={"every", "sets", "batch_size"}),
            **({"probe": settings.probe.as_written()} if settings.probe else {}),
            executor=settings.executor.as_written(),
            **{key: value for key in ("rows", "state", "validation") if (value := getattr(settings, key)) is not None},
        )

    @functools.lru_cache(4096)  # noqa: B019
    def build(self, scale: str, protocol: str, row: str) -> registry.Algorithm:
        """Return the algorithm of ``row`` with its hyper-parameters in ``protocol``."""
        _, parameters = self.hyperparameters(scale, protocol, row)
        return registry.build(without_label(row), parameters)
