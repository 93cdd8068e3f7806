"""The images that a round sees and the operations that an image takes, counted from the run's description.

They estimate the seconds of a run where nothing like it was measured. Operations are those of convolutions and matrix
products, as torch counts them; a multiply-add is two. The rest of a step is not counted, nor is the time in which small
operations leave a device idle; dead taps are counted although they are not computed. The result is an order of
magnitude, at a speed that is named.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from flatfed import algorithms

#: Device -> operations a second, where nothing was measured on it. For a CPU: about half of what ResNet-18's gradient
#: reaches on one core with AVX-512; for a GPU: a guess.
NOMINAL = {"cpu": 50e9, "cuda": 10e12}


def model_of(description: dict[str, Any]) -> tuple[str, str, tuple[int, ...], int]:
    """Return a run's model: its name, its options as JSON, the shape of an image, the number of classes."""
    model, data = description["model"], description["dataset"]
    return model["name"], json.dumps(model["options"], sort_keys=True), tuple(data["shape"]), data["classes"]


def kind_of(description: dict[str, Any]) -> tuple[Any, ...]:
    """Return what decides the seconds of an image: the model, the batch, the precision."""
    return (*model_of(description), description["batch_size"], description["precision"])


@cache
def of_image(name: str, options: str, shape: tuple[int, ...], classes: int) -> tuple[float, float] | None:
    """Return the operations of an image's gradient and of its evaluation, counted on a model without memory (meta).

    ``options``: the model's, as JSON; ``shape`` (channels, height, width). None where torch is not installed.
    """
    try:
        import torch
    except ModuleNotFoundError:
        return None
    from torch.nn.functional import cross_entropy
    from torch.utils.flop_counter import FlopCounterMode

    from flatfed import models

    with torch.device("meta"):
        module = models.build(name, shape, classes, json.loads(options))
        images, labels = torch.empty(2, *shape), torch.zeros(2, dtype=torch.long)
        with FlopCounterMode(display=False) as gradient:
            cross_entropy(module(images), labels).backward()
        with FlopCounterMode(display=False) as forward, torch.no_grad():
            module(images)
    return gradient.get_total_flops() / len(images), forward.get_total_flops() / len(images)


#: Name of a data set -> its images, those of the training set as ``train`` and those of the test set as ``test``.
Datasets = Mapping[str, Mapping[str, Any]]


def images_seen(description: dict[str, Any], datasets: Datasets) -> float:
    """Return about how many images the gradients of one round see: an expectation; two gradients a step count twice."""
    training = datasets[description["dataset"]["name"]]["train"]
    kind = algorithms.load(description["update"]["name"])
    clients, sampling = description["partition"]["clients"], description["sampling"]
    active = clients if sampling["scheme"] == "all" else max(1.0, clients * sampling["fraction"])
    if "local_steps" in description:
        seen = active * description["local_steps"] * description["batch_size"]
    else:
        seen = active * training / clients * description["local_epochs"]
    return seen * kind.gradients_per_step + kind.full_passes * active * training / clients


def images_evaluated(description: dict[str, Any], datasets: Datasets) -> float:
    """Return how many images are evaluated per round: those of an evaluation, divided by the rounds between two.

    They count as if all were dealt. Without a server, every node's images are evaluated once more, by the node's own
    model.
    """
    images, sets = datasets[description["dataset"]["name"]], description["evaluation"]["sets"]
    training = images["train"]
    each = images["test"] if "validation" not in sets else description["validation"] * training
    each += training * ("train" in sets or "clients" in sets)
    if "nodes" in sets and algorithms.load(description["update"]["name"]).decentralised:
        each += training + description["partition"]["clients"] * description["partition"].get("client_test", 0)
    return each / description["evaluation"]["every"]
