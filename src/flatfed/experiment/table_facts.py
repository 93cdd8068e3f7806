"""Numbers of descriptive tables, taken from the configuration: what datasets are, what was searched and chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flatfed import algorithms as registry
from flatfed.experiment import settings
from flatfed.experiment.model import Column, Row

if TYPE_CHECKING:
    from flatfed.experiment.experiment import Experiment

#: Fact -> function of a dataset's entry.
OF_DATASET: dict[str, Callable[[dict[str, Any]], int | None]] = {
    "total_samples": lambda dataset: dataset["train"] + dataset["test"],
    "train_samples": lambda dataset: dataset["train"],
    "test_samples": lambda dataset: dataset["test"],
    "classes": lambda dataset: dataset["classes"],
    "domains": lambda dataset: len(dataset["domains"]) if "domains" in dataset else None,
    "image_channels": lambda dataset: dataset["shape"][0],
    "image_height": lambda dataset: dataset["shape"][1],
    "image_width": lambda dataset: dataset["shape"][2],
}


def given(experiment: Experiment, scale: str, column: Column, row: Row) -> float | None:
    """Return the number of a cell of a descriptive table, None where it means nothing for the row."""
    if "fact" in column.settings:
        return _of_dataset(experiment, scale, column, row)
    return _searched(experiment, scale, column, row)


def _of_dataset(experiment: Experiment, scale: str, column: Column, row: Row) -> float | None:
    protocol = row.settings["protocol"]
    if column.settings["fact"] == "clients":
        if "split" not in column.settings:
            return None
        return experiment.deal(scale, protocol, column.settings["split"]).partition["clients"]
    return OF_DATASET[column.settings["fact"]](experiment.catalog.datasets[experiment.dataset_of(scale, protocol)])


def _searched(experiment: Experiment, scale: str, column: Column, row: Row) -> float | None:
    """Return the hyper-parameter of a row that a column's algorithm has, or a value of the grid it was chosen from."""
    algorithm, key, place = column.settings["algorithm"], row.settings["key"], column.settings["place"]
    if key not in registry.load(algorithm).parameters() and key not in settings.OWN_TRAINING:
        return None
    if place:
        grid = experiment.values(scale, column.protocol)["searched"][algorithm].get(key, [])
        number = grid[place - 1] if place <= len(grid) else None
    else:
        training, parameters = experiment.hyperparameters(scale, column.protocol, algorithm)
        number = parameters[key] if key in parameters else training[key]
    return 1 / number if number and row.settings.get("reciprocal") else number
