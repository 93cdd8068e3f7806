"""Ids -> run: folder, files, and the complete description for the trainer."""

from __future__ import annotations

from collections.abc import Mapping

from flatfed import models
from flatfed.experiment.catalog import Catalog
from flatfed.runs.paths import Paths, RunIds
from flatfed.runs.run import Run


def resolve(catalog: Catalog, paths: Paths, ids: RunIds, chosen: Mapping[str, float]) -> Run:
    """Return the run of valid ``ids``; values ``chosen`` by tuning override the protocol's."""
    scale, protocol, split = ids.scale, ids.protocol, ids.split
    settings, dataset = catalog.settings(scale, protocol), catalog.dataset(scale, protocol)
    resolved_split, model = catalog.split_settings(scale, protocol, split), settings.model
    training, parameters = catalog.hyperparameters(scale, protocol, ids.algorithm, chosen)
    length = {}
    if reference := catalog.splits[split].steps_of:  # a round has the steps of the reference split
        federated = catalog.split_settings(scale, protocol, reference)
        length = {"local_steps": federated.steps(training["batch_size"], training["local_epochs"])}
    emulated = training["precision"] == "bfloat16" and settings.emulate_bfloat16
    description = {
        "format": 1,
        **vars(ids),
        "dataset": {"name": settings.dataset, **dataset.model_dump(include={"classes", "shape", "mean", "std"})},
        "partition": resolved_split.partition,
        "sampling": resolved_split.sampling,
        **({"topology": resolved_split.topology} if resolved_split.topology else {}),
        **length,
        "model": {
            "name": model.name,
            "options": models.check_options(model.name, model.options or {}, protocol),
            **({"weights": model.weights} if model.weights else {}),
        },
        **training,
        "update": {"name": ids.algorithm.partition("~")[0], "params": parameters},
        "evaluation": settings.evaluation.model_dump(include={"every", "sets", "batch_size"}),
        **({"probe": settings.probe.as_written()} if settings.probe else {}),
        "executor": settings.executor.as_written(),
        **({"emulate_bfloat16": True} if emulated else {}),
    }
    return Run(
        **vars(ids),
        path=paths.run(ids),
        analysis_folder=paths.analyses(ids),
        dataset=settings.dataset,
        partition=paths.partition(scale, protocol, split, ids.seed),
        description=description,
        weights=paths.weights(model.weights) if model.weights else None,
        paths=paths,
    )
