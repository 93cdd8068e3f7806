"""How much memory a run takes, computed in advance from its description. Pure Python.

All numbers are bytes and upper ends of what is to be expected: a store is counted as if every client had taken part, a
round of independent draws as if it were a large one. What one row and one image take while a gradient is computed
depends on the model alone and is given (:class:`Footprint`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flatfed.algorithms import Algorithm
from flatfed.algorithms._rows import BLOCK

#: Bytes of a weight, whatever format the layers compute in.
ITEM = {"float32": 4, "float64": 8, "bfloat16": 4}

#: A large round of clients that are drawn independently has so many standard deviations more than the mean.
DEVIATIONS = 3.0

#: Client state lies on the device, or in memory, where so many times as much is free there.
SPARE = 2

#: Forms in which the images of a batch are there at a time: as gathered, normalised, and as convolutions want them.
IMAGE_FORMS = 3

#: Rows that a hook of an algorithm makes for its own use, at most.
HOOK_ROWS = 2


@dataclass(frozen=True)
class Footprint:
    """What a model takes, in numbers, not bytes.

    ``row`` the length of a flat row; while a gradient is computed, beside the rows, ``step`` for each row and ``image``
    for each image; ``forward`` for each image that is only evaluated.
    """

    row: int
    step: int
    image: int
    forward: int


@dataclass(frozen=True)
class Sizes:
    """Bytes of a run: ``state`` what clients keep between rounds, with the models they received last; ``server`` its
    vectors, the model and its first weights; ``rows`` what the clients that train at a time have at hand; ``others``
    what is kept of those that train before or after them: what they have sent, and their state before the round;
    ``images`` activations and images of a local step, or of an evaluation if that is more. The data set is not
    counted."""

    state: int
    server: int
    rows: int
    others: int
    images: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.state + self.server + self.rows + self.others + self.images

    def parts(self) -> list[tuple[str, int]]:
        """Return the parts of the total, named as people are told of them."""
        return [
            ("client state", self.state),
            ("clients that train at a time", self.rows),
            ("the other clients of a round", self.others),
            ("activations and images", self.images),
            ("the server's vectors", self.server),
        ]


def active(description: dict[str, Any]) -> int:
    """Return how many clients take part in a round; of independent draws, in a large one."""
    clients, sampling = description["partition"]["clients"], description["sampling"]
    fraction = float(sampling.get("fraction", 1.0))
    if sampling["scheme"] == "all":
        return clients
    if sampling["scheme"] == "fixed":
        return max(1, round(fraction * clients))
    return min(clients, math.ceil(clients * fraction + DEVIATIONS * math.sqrt(clients * fraction * (1 - fraction))))


def computed(
    description: dict[str, Any],
    algorithm: Algorithm,
    model: Footprint,
    *,
    together: int | None,
    evaluated: int,
    recorded: bool,
) -> Sizes:
    """Return the sizes of a run of ``algorithm`` whose clients train ``together`` at a time (None: all of a round).

    ``evaluated``: images of one batch of an evaluation; ``recorded``: steps are recorded, and have buffers of their own
    for all that they read and write.
    """
    item, clients, present = ITEM[description["precision"]], description["partition"]["clients"], active(description)
    shape = tuple(description["dataset"]["shape"])
    vector, pixels = item * model.row, math.prod(shape)
    private = item * algorithm.private_size(shape)
    block = min(together or present, present)
    kept = len(algorithm.client_state) + algorithm.decentralised  # vectors of the model's size that a client keeps
    sent = 0 if algorithm.decentralised else max(0, round(algorithm.communication[1]) - 1)  # beside the model
    perturbs = type(algorithm).perturbation is not Algorithm.perturbation
    held = 1 + kept + algorithm.remembers + len(algorithm.scratch)
    at_hand = max(item * model.step + 2 * perturbs * vector, (HOOK_ROWS + sent) * vector)
    batch = block * description["batch_size"] * (model.image + IMAGE_FORMS * pixels)
    shown = evaluated * (model.forward + IMAGE_FORMS * pixels)
    if algorithm.full_passes:
        batch = max(batch, evaluated * (model.image + IMAGE_FORMS * pixels))
    others = present * ((1 + sent + kept) * vector + private)
    if algorithm.decentralised:  # nothing is sent, but trained models are copied before columns of them are mixed
        others = max(present * kept * vector, present * vector + item * clients * min(model.row, BLOCK))
    return Sizes(
        state=clients * (kept * vector + private) + algorithm.remembers * min(clients, description["rounds"]) * vector,
        server=(3 + len(algorithm.server_state) * (1 + recorded) + recorded) * vector,
        rows=block * ((1 + recorded) * (held * vector + private) + private + at_hand),
        others=0 if block == present else others,
        images=item * (batch + shown if recorded else max(batch, shown)),  # a recording keeps its activations' memory
    )


def home(size: int, on_device: int | None, in_memory: int) -> str:
    """Return where ``size`` bytes of client state go: ``device``, ``memory`` or (memory-mapped) ``file``.

    ``on_device`` bytes that are free on a GPU, None where there is none; ``in_memory`` bytes free on the host.
    """
    if on_device is not None and size * SPARE <= on_device:
        return "device"
    return "memory" if size * SPARE <= in_memory else "file"


def in_units(count: float) -> str:
    """Write bytes in a unit of three figures or so."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1e3:.0f} kB"


def listed(parts: Iterable[tuple[str, int]]) -> str:
    """Write the parts of a sum, largest first, those below a hundredth of it left out."""
    ordered = sorted(parts, key=lambda part: -part[1])
    least = sum(size for _, size in ordered) / 100
    return ", ".join(f"{name} {in_units(size)}" for name, size in ordered if size > least)
