"""A simulation with its wrappers and the checks before the first round."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import torch

from flatfed import algorithms
from flatfed.data.dataset import Dataset
from flatfed.data.partition import Partition
from flatfed.engine import executors
from flatfed.engine.checks import requirements
from flatfed.engine.feed import Feed
from flatfed.engine.local_update import LocalUpdate
from flatfed.engine.memory import home
from flatfed.engine.peers import PeerSimulation
from flatfed.engine.precision import STATE_DTYPES
from flatfed.engine.resident import Resident
from flatfed.engine.sampling import most_participants
from flatfed.engine.server import ServerSimulation
from flatfed.engine.simulation import Simulation
from flatfed.engine.speed import live
from flatfed.engine.speed.fused_update import FusedUpdate
from flatfed.engine.speed.recording import CudaGraphs, Recorded, RecordedScore
from flatfed.engine.weights import initial_model
from flatfed.errors import ConfigError
from flatfed.runs.run_config import RunConfig


def simulation(
    config: RunConfig,
    dataset: Dataset,
    partition: Partition,
    device: torch.device,
    executor: str,
    *,
    algorithm: algorithms.Algorithm | None = None,
    pretrained_file: str | os.PathLike[str] | None = None,
    pause: Callable[[], None] = lambda: None,
    full_model: bool = False,
) -> Simulation:
    """Return the simulation of a ``config`` before its first round, with gradients from ``executor``.

    ``algorithm``: replaces the run's. ``pretrained_file``: initial weights. ``full_model``: keep dead taps.

    :raises ConfigError: settings are incompatible.
    """
    shape, precision = tuple(config.dataset.shape), config.precision
    algorithm = algorithm or algorithms.build(config.update.name, config.update.params)
    dtype = STATE_DTYPES[precision]
    kind = executors.executor_class(executor)
    options = algorithm, shape, device, dtype, full_model, kind.row_layers
    weights = live.weights(*initial_model(config, pretrained_file), *options)
    private = algorithm.private_size(shape)
    clients = len(partition.offsets) - 1
    requirements.check(algorithm, config, clients, private, weights.initial[: weights.layout.tensor_size])

    data = Resident.of(dataset, config.dataset, config.augmentation, device, dtype)
    transform = algorithm.transform if private else None
    layer_dtype = torch.bfloat16 if precision == "bfloat16" else None
    gradients = kind(weights.model, weights.layout, transform, layer_dtype, config.label_smoothing or 0.0)
    if gradients.records_steps and data.images.device.type != device.type:
        raise ConfigError(
            f"executor {executor}: the images ({data.images.nbytes / 1e9:.1f} GB) are in host memory, from which a "
            "recorded step cannot gather; use sequential or stacked"
        )
    decay, clip = float(config.weight_decay), config.clip_norm
    local_update = (FusedUpdate if kind.row_layers else LocalUpdate)(
        algorithm, gradients, Feed(data, weights.model), decay, clip, pause, config.momentum or 0.0
    )
    record = CudaGraphs(device) if device.type == "cuda" else lambda work: work
    if gradients.records_steps:
        most = most_participants(config.sampling, clients, config.seed, config.rounds)
        local_update = Recorded(local_update, record, min(most, config.rows or most))

    simulation_class = PeerSimulation if algorithm.decentralised else ServerSimulation
    choose = partial(home.choose, device=device, requested=config.state)
    parts = config, partition, algorithm, weights, gradients, data, local_update
    result = simulation_class(*parts, choose, pause)
    if gradients.records_steps and device.type == "cuda":  # recorded evaluations share the steps' memory
        evaluate = result.evaluate
        evaluate.score = RecordedScore(evaluate.score, record, [evaluate.images, evaluate.train])
    return result
