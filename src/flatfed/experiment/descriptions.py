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
    values, dataset = catalog.values(scale, protocol), catalog.dataset(scale, protocol)
    resolved_split, model = catalog.split_settings(scale, protocol, split), values["model"]
    training, parameters = catalog.hyperparameters(scale, protocol, ids.algorithm, chosen)
    length = {}
    if reference := catalog.splits[split].steps_of:  # a round has the steps of the reference split
        federated = catalog.split_settings(scale, protocol, reference)
        length = {"local_steps": federated.steps(training["batch_size"], training["local_epochs"])}
    emulated = training["precision"] == "bfloat16" and values.get("emulate_bfloat16")
    description = {
        "format": 1,
        **vars(ids),
        "dataset": {"name": values["dataset"], **dataset.model_dump(include={"classes", "shape", "mean", "std"})},
        "partition": resolved_split.partition,
        "sampling": resolved_split.sampling,
        **({"topology": resolved_split.topology} if resolved_split.topology else {}),
        **length,
        "model": {
            "name": model["name"],
            "options": models.check_options(model["name"], model.get("options", {}), protocol),
            **({"weights": model["weights"]} if "weights" in model else {}),
        },
        **training,
        "update": {"name": ids.algorithm.partition("~")[0], "params": parameters},
        "evaluation": {key: values["evaluation"][key] for key in ("every", "sets", "batch_size")},
        **({"probe": values["probe"]} if "probe" in values else {}),
        "executor": values["executor"],
        **({"emulate_bfloat16": True} if emulated else {}),
    }
    return Run(
        **vars(ids),
        path=paths.run(ids),
        analysis_folder=paths.analyses(ids),
        dataset=values["dataset"],
        partition=paths.partition(scale, protocol, split, ids.seed),
        description=description,
        weights=paths.weights(model["weights"]) if "weights" in model else None,
        paths=paths,
    )
