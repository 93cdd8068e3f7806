"""A simulation as a job has it: the core with what makes it faster, spares memory and refuses what cannot train."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from flatfed import algorithms
from flatfed.data.dataset import Dataset
from flatfed.data.partition import Partition
from flatfed.engine import executors
from flatfed.engine.checks import hooks, requirements, trial_batch
from flatfed.engine.memory import home
from flatfed.engine.peers import PeerSimulation
from flatfed.engine.precision import STATE
from flatfed.engine.server import ServerSimulation
from flatfed.engine.simulation import Simulation
from flatfed.engine.speed import live
from flatfed.engine.speed.recording import Recorded, recorder
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
) -> Simulation:
    """Return the run of a ``description``, before its first round, whose gradients ``executor`` computes.

    ``algorithm``: in place of the description's; ``pretrained_file``: weights to start from;
    ``full_model``: keep dead taps, whatever the algorithm.

    :raises ConfigError: the description's parts do not go together, or the executor cannot run the model.
    :raises FlatFedError: a hook of the algorithm does not do what it promises.
    """
    update, shape = description["update"], tuple(description["dataset"]["shape"])
    algorithm = algorithm or algorithms.made(**update)
    hooks.watch(algorithm)
    dtype = STATE[description["precision"]]
    weights = live.weights(*drawn(description, pretrained_file), algorithm, shape, device, dtype, full_model)
    private = algorithm.private_size(shape)
    requirements.check(algorithm, description, len(partition.offsets) - 1, private)
    if private:
        hooks.check_transform(algorithm, weights.initial, shape, private)
    kind = PeerSimulation if algorithm.decentralised else ServerSimulation
    parts = description, dataset, partition, device, algorithm, weights
    run = kind(*parts, executors.kind(executor), lambda size: home.choose(size, device), pause)
    _prepare_executor(run)
    hooks.check_evaluated(algorithm, run.server)
    return run


def _prepare_executor(run: Simulation) -> None:
    """Refuse an executor that cannot run the model of ``run`` here; have one that is recorded record its steps.

    :raises ConfigError: naming the executor and the reason.
    """
    if run.executor.recorded and run.data.images.device.type != run.device.type:
        gigabytes = run.data.images.nbytes / 1e9
        raise ConfigError(
            f"executor {run.executor.name}: the images ({gigabytes:.1f} GB) lie in host memory, from which a recorded "
            "step cannot gather; use sequential or stacked"
        )
    trial_batch.check(run.executor, tuple(run.description["dataset"]["shape"]), run.private, run.dtype, run.device)
    if run.executor.recorded:
        run.local = Recorded(run.local, recorder(run.device))
