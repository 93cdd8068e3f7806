"""A simulation as a job uses it: the core, its wrappers, and the checks before the first round."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from flatfed import algorithms
from flatfed.data.dataset import Dataset
from flatfed.data.partition import Partition
from flatfed.engine import executors
from flatfed.engine.checks import rehearsal, requirements, trial_batch
from flatfed.engine.feed import Feed
from flatfed.engine.local_update import LocalUpdate
from flatfed.engine.memory import home, shortage
from flatfed.engine.peers import PeerSimulation
from flatfed.engine.precision import STATE, layers
from flatfed.engine.resident import Resident
from flatfed.engine.sampling import active_clients
from flatfed.engine.server import ServerSimulation
from flatfed.engine.simulation import Simulation
from flatfed.engine.speed import live
from flatfed.engine.speed.recording import Recorded, recorder
from flatfed.engine.speed.seeds import Joined, Meeting
from flatfed.engine.weights import drawn
from flatfed.errors import ConfigError


def simulation(
    description: dict[str, Any],
    dataset: Dataset,
    partition: Partition,
    device: torch.device,
    executor: str,
    *,
    algorithm: algorithms.Algorithm | None = None,
    pretrained_file: str | os.PathLike[str] | None = None,
    pause: Callable[[], None] = lambda: None,
    full_model: bool = False,
    meeting: Meeting | None = None,
) -> Simulation:
    """Return the run of a ``description`` before its first round, whose gradients ``executor`` computes.

    ``algorithm``: instead of the description's. ``pretrained_file``: initial weights. ``full_model``: keep dead taps,
    whatever the algorithm. ``meeting``: trains runs of other seeds together.

    :raises ConfigError: the description's parts do not go together, or the executor cannot run the model.
    :raises FlatFedError: a hook of the algorithm returns or does something else than it promises.
    """
    shape, precision = tuple(description["dataset"]["shape"]), description["precision"]
    algorithm = algorithm or algorithms.made(**description["update"])
    dtype = STATE[precision]
    weights = live.weights(*drawn(description, pretrained_file), algorithm, shape, device, dtype, full_model)
    private = rehearsal.private_size(algorithm, shape)
    clients = len(partition.offsets) - 1
    requirements.check(algorithm, description, clients, private)

    data = Resident.of(dataset, description["dataset"], description["augmentation"], device, dtype)
    data = data if meeting is None else meeting.share(data)
    transform = algorithm.transform if private else None
    gradients = executors.kind(executor)(weights.model, weights.layout, transform, layers(precision))
    if gradients.recorded and data.images.device.type != device.type:
        raise ConfigError(
            f"executor {executor}: the images ({data.images.nbytes / 1e9:.1f} GB) lie in host memory, from which a "
            "recorded step cannot gather; use sequential or stacked"
        )
    first = len(active_clients(description["sampling"], clients, int(description["seed"]), 0))
    try:
        rehearsal.rehearse(algorithm, description, weights.layout, weights.initial, private, first)
        trial_batch.check(gradients, shape, private, dtype, device)
    except (RuntimeError, MemoryError) as error:
        if not shortage.is_shortage(error):  # a round can take less memory than the checks
            raise
    shortage.release()  # the memory of both checks, before client state chooses its home
    decay, clip = float(description["weight_decay"]), description["clip_norm"]
    local_update = LocalUpdate(algorithm, gradients, Feed(data, weights.model), decay, clip, pause)
    if gradients.recorded:
        local_update = Recorded(local_update, recorder(device))
    if meeting is not None:
        local_update = Joined(local_update, meeting)

    kind = PeerSimulation if algorithm.decentralised else ServerSimulation
    counted = {"train": dataset.train, "test": dataset.test}
    parts = description, partition, algorithm, weights, local_update, counted
    return kind(*parts, lambda size: home.choose(size, device), pause)
