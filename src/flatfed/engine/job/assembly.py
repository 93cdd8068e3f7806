"""A run's data, its simulation with all wrappers, and the checks before the first round."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatfed import algorithms
from flatfed.algorithms import Algorithm
from flatfed.algorithms._names import location
from flatfed.data import dataset as datasets
from flatfed.data import partition as partitions
from flatfed.engine import executors, hooks
from flatfed.engine.aggregation import PeerSimulation, ServerSimulation
from flatfed.engine.batches import most_participants
from flatfed.engine.checks import layers
from flatfed.engine.job import memory
from flatfed.engine.local_update import LocalUpdate
from flatfed.engine.precision import STATE_DTYPES
from flatfed.engine.resident import Resident
from flatfed.engine.simulation import Simulation
from flatfed.engine.speed import live
from flatfed.engine.speed.recording import CudaGraphs, FusedUpdate, Recorded, RecordedScore
from flatfed.engine.weights import PLACE, Front, initial_model
from flatfed.errors import ConfigError, DataError
from flatfed.models import batch_norm
from flatfed.runs.run_config import RunConfig


def load_data(config: RunConfig, dataset: Any, partition: Any) -> tuple[datasets.Dataset, partitions.Partition]:
    """Return dataset and partition, checked against the run's settings, the dataset's digest and each other.

    With ``validation``, that share of the partition is held out and the test images are removed.
    """
    data, members = datasets.load(dataset), partitions.load(partition)
    expected, shape = config.dataset, list(data.images.shape[1:])
    for what, found in (("shape", shape), ("classes", data.classes)):
        if found != (requested := getattr(expected, what)):
            run = f"dataset {expected.name!r} of the run has {requested}"
            raise DataError(f"{dataset}: {what} {found}, but {run}")
    config.check_partition(str(partition), members.spec)
    if (digest := members.spec["dataset_digest"]) != data.digest:
        raise DataError(
            f"{partition}: made from other data than {dataset} (digests {digest[:12]} and {data.digest[:12]}); make "
            "the partition again"
        )
    datasets.verify(dataset)
    if config.validation is not None:
        members = partitions.hold_out(members, data.labels, config.validation, config.seed)
    return data, members


def executor_name(config: RunConfig, device: torch.device) -> str:
    """Return the executor of a new run: that of its settings, or ``sequential`` if a CPU trains one client at a time.

    The other executors take 1.4 times as long there for a single row.
    """
    if device.type == "cpu" and largest_block(config) == 1:
        return executors.Sequential.name
    return getattr(config.executor, device.type)


def largest_block(config: RunConfig) -> int:
    """Return the largest number of clients that train together in a run, if its executor trains all at once."""
    most = most_participants(config.sampling, config.partition.clients, config.seed, config.rounds)
    return min(most, config.rows or most)


def simulation(
    config: RunConfig,
    dataset: datasets.Dataset,
    partition: partitions.Partition,
    device: torch.device,
    executor: str,
    *,
    algorithm: Algorithm | None = None,
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
    options = algorithm, shape, device, dtype, full_model, kind.records_steps
    model, initial = initial_model(config, pretrained_file)
    if batch_norm.layers(model) and not ((np.diff(partition.offsets) - 1) % config.batch_size).all():
        layers.refuse_single_values(model, config.model.name, shape)
    if kind.together or precision == "bfloat16":  # torch would take counts of passes in bfloat16, too
        batch_norm.leave_out_padding(model)
    layers.check(model, config.model.name, shape, kind)
    if size := algorithm.front_size(shape):
        model.add_module(PLACE, Front(algorithm.transform, size))
        initial = torch.cat([initial, initial.new_zeros(size)])
    weights = live.weights(model, initial, *options)
    check_requirements(algorithm, config, weights.initial[: weights.layout.tensor_size])

    data = Resident(dataset, config.dataset, config.augmentation, device, dtype)
    layer_dtype = torch.bfloat16 if precision == "bfloat16" else None
    loss = algorithm.loss if hooks.overrides(algorithm, "loss") else None
    losses = loss, hooks.overrides(algorithm, "second_model"), config.label_smoothing or 0.0
    gradients = kind(weights.model, weights.layout, layer_dtype, *losses, weights.evaluated)
    if gradients.records_steps and data.images.device.type != device.type:
        raise ConfigError(
            f"executor {executor}: the images ({data.images.nbytes / 1e9:.1f} GB) are in host memory, from which a "
            "recorded step cannot gather; use sequential or stacked"
        )
    update_class = FusedUpdate if kind.records_steps else LocalUpdate
    local_update = update_class(algorithm, gradients, data, config, pause, weights.positions(algorithm.local))
    record = CudaGraphs(device) if device.type == "cuda" else lambda work: work
    if gradients.records_steps:
        local_update = Recorded(local_update, record, largest_block(config))

    simulation_class = PeerSimulation if algorithm.decentralised else ServerSimulation
    choose = partial(memory.choose_home, device=device, requested=config.state)
    result = simulation_class(config, partition, weights, local_update, choose)
    if gradients.records_steps and device.type == "cuda":  # recorded evaluations share the steps' memory
        evaluate = result.evaluate
        evaluate.score = RecordedScore(evaluate.score, record, [evaluate.images, evaluate.train])
    return result


def check_requirements(algorithm: Algorithm, config: RunConfig, weights: Tensor) -> None:
    """Refuse ``algorithm`` with initial ``weights`` (parameters,).

    bfloat16 may round the weights by at most four times the perturbation's norm. Up to there, the gradient's change on
    ResNet-18 keeps a cosine of 0.97 with float32's.
    """
    name = type(algorithm).__name__
    if algorithm.decentralised and algorithm.remembers:
        raise ConfigError(f"algorithm {name}: without a server, clients receive no model to remember")
    own_loss = hooks.overrides(algorithm, "loss")
    if hooks.overrides(algorithm, "second_model") and not own_loss:
        raise ConfigError(f"{location(algorithm.second_model)}: has no effect; expected: also a hook `loss`")
    if config.label_smoothing and own_loss:
        raise ConfigError(f"algorithm {name}: label_smoothing: the algorithm has a loss of its own")
    if hooks.overrides(algorithm, "update_local") and not algorithm.local:
        raise ConfigError(f"{location(algorithm.update_local)}: has no effect; expected: also parameters in `local`")
    if algorithm.local and (algorithm.server_state or algorithm.remembers or algorithm.decentralised):
        problem = "local parameters exclude server_state, remembers and decentralised, which would share them"
        raise ConfigError(f"algorithm {name}: {problem}")
    minimum = float((weights - weights.to(torch.bfloat16)).norm()) / 4 if config.precision == "bfloat16" else 0.0
    if 0 < algorithm.radius < minimum:
        raise ConfigError(
            f"algorithm {name}: its perturbation has the norm {algorithm.radius:.2g}, which is lost where bfloat16 "
            f"rounds the weights of {config.model.name}; allowed: precision: float32, or a perturbation of norm 0 or "
            f"from {minimum:.2g} up"
        )
