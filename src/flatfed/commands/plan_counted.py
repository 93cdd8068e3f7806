"""What a round is made of, from its description: images that it sees, and the operations that they take.

Where nothing like a run was measured, its seconds are counted so: the operations of convolutions and matrix products,
as torch counts them; a multiply-add is two. What else a step does, and that small operations leave a device waiting, is
not counted; nor are dead taps left out. It is an order of magnitude, at a speed that is named.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from flatfed import algorithms

#: How the seconds of a round are known.
WAYS = ("measured", "scaled", "counted", "unknown")

#: Device -> operations a second that are taken where nothing was measured on it: of one core with AVX-512 about half of
#: what ResNet-18's gradient reaches there, of a GPU a guess.
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
    """Return the operations of an image's gradient and of its evaluation by a model that is built without memory.

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


def images_seen(description: dict[str, Any], training: int) -> float:
    """Return how many images the gradients of one round see, twice for two gradients a step; about, by expectation.

    ``training``: images in the training set.
    """
    kind = algorithms.load(description["update"]["name"])
    clients, sampling = description["partition"]["clients"], description["sampling"]
    active = clients if sampling["scheme"] == "all" else max(1.0, clients * sampling["fraction"])
    if "local_steps" in description:
        seen = active * description["local_steps"] * description["batch_size"]
    else:
        seen = active * training / clients * description["local_epochs"]
    return seen * kind.gradients_per_step + kind.full_passes * active * training / clients


def images_evaluated(description: dict[str, Any], training: int, test: int) -> float:
    """Return how many images an evaluation sees, over the rounds from one to the next; as if all images were dealt.

    ``training`` and ``test``: images in these sets. Without a server, nodes see their own once more, by their models.
    """
    sets = description["evaluation"]["sets"]
    each = test if "validation" not in sets else description["validation"] * training
    each += training * ("train" in sets or "clients" in sets)
    if "nodes" in sets and algorithms.load(description["update"]["name"]).decentralised:
        each += training + description["partition"]["clients"] * description["partition"].get("client_test", 0)
    return each / description["evaluation"]["every"]


def explained(numbers: dict[str, Any], rate: Callable[[], float]) -> Iterator[str]:
    """Yield what hours are that are counted, at ``rate()`` operations a second, and why some are unknown."""
    nothing = "nothing like these runs was measured on this kind of device"
    if numbers["counted"]:
        speed = f"{rate() / 1e12:.3g} TFLOP/s" if rate() >= 1e12 else f"{rate() / 1e9:.3g} GFLOP/s"
        yield (
            f"counted: {nothing}; the operations of their convolutions and products at {speed}; a device that reaches "
            "another speed takes as much less or more. --calibrate times one of each kind"
        )
    if numbers["unknown"]:
        yield f"unknown: {nothing}; --calibrate times one of each kind"
