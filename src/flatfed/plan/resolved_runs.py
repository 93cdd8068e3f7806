"""Ids -> run: folder, files, and the complete settings for the trainer."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

from flatfed import models
from flatfed.plan.catalog import Catalog
from flatfed.runs.paths import Paths, RunIds, without_label
from flatfed.runs.run import Run
from flatfed.runs.run_config import RunConfig


def resolve(catalog: Catalog, paths: Paths, ids: RunIds, chosen: Mapping[str, float]) -> Run:
    """Return the run of valid ``ids``; values ``chosen`` by tuning override the protocol's."""
    config = _config_of_row(catalog, replace(ids, seed=0), tuple(chosen.items()))
    weights = config.model.weights
    return Run(
        **vars(ids),
        path=paths.run(ids),
        analysis_folder=paths.analyses(ids),
        dataset=config.dataset.name,
        partition=paths.partition(ids.scale, ids.protocol, ids.split, ids.seed),
        config=config.model_copy(update={"seed": ids.seed}),
        weights=paths.weights(weights) if weights else None,
        paths=paths,
    )


@functools.lru_cache(4096)
def _config_of_row(catalog: Catalog, ids: RunIds, chosen: tuple[tuple[str, float], ...]) -> RunConfig:
    """Return the settings that the seeds of a row share."""
    scale, protocol, split = ids.scale, ids.protocol, ids.split
    settings, dataset = catalog.settings(scale, protocol), catalog.dataset(scale, protocol)
    resolved_split, model = catalog.split_settings(scale, protocol, split), settings.model
    training, parameters = catalog.hyperparameters(scale, protocol, ids.algorithm, dict(chosen))
    if reference := catalog.splits[split].steps_of:  # a round has the steps of the reference split
        federated = catalog.split_settings(scale, protocol, reference)
        length = training["batch_size"], training.get("local_epochs"), training.get("local_steps")
        training["local_steps"] = federated.steps(*length)
    emulated = training["precision"] == "bfloat16" and settings.emulate_bfloat16
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
        **({"emulate_bfloat16": True} if emulated else {}),
        **{key: value for key in ("rows", "state") if (value := getattr(settings, key)) is not None},
    )
