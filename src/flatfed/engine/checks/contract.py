"""The contract of an algorithm, in float64 on a toy problem."""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from flatfed import algorithms
from flatfed.data.dataset import Dataset
from flatfed.data.partition import Partition
from flatfed.engine import batches
from flatfed.engine.checks import first_round
from flatfed.engine.job import assembly
from flatfed.engine.simulation import Simulation
from flatfed.errors import FlatFedError
from flatfed.runs.run_config import RunConfig

SIZES, TEST, ROUNDS, TOLERANCE = (7, 12, 5, 9, 10, 6), 8, 4, 1e-12
SETTINGS = {
    **{"scale": "preview", "protocol": "toy", "split": "toy", "seed": 1, "precision": "float64"},
    "dataset": {"name": "toy", "classes": 3, "shape": [1, 8, 8], "mean": [0.4], "std": [0.25]},
    **{"model": {"name": "cnn_tiny", "options": {}}, "augmentation": "none", "clip_norm": 1.5, "weight_decay": 0.01},
    **{"rounds": ROUNDS, "batch_size": 4, "local_epochs": 2, "learning_rate": 0.2, "learning_rate_decay": 0.9},
    "evaluation": {"every": ROUNDS, "sets": ["test"], "batch_size": TEST},
    **{"executor": {"cpu": "sequential", "cuda": "sequential"}, "checkpoint_every": ROUNDS},
}


class Interruption(Exception):
    """Stops a round before one of its local steps."""


def check(name: str) -> Iterator[str]:
    """Train algorithm ``name`` with its default parameters; yield a sentence per condition that it meets.

    :raises FlatFedError: it violates a condition.
    """
    run = trained(name, "sequential")
    file = inspect.getfile(type(run.algorithm))
    yield "hooks return declared vectors and draw no random numbers of their own"
    results = vectors(run)
    if wrong := [key for key, values in results.items() if not values.isfinite().all()]:
        raise FlatFedError(f"{file}: {wrong[0]} is not finite after {run.round} rounds")
    if torch.equal(run.server["w"][0], run.weights.initial):
        raise FlatFedError(f"{file}: the model does not change; does `aggregate` return 'w'?")
    yield "the model changes and stays finite"
    for change, options in (
        ("all clients at once", {"executor": "stacked"}),
        ("the clients in another order", {"executor": "sequential", "backwards": True}),
        ("a round that is interrupted and repeated", {"executor": "sequential", "interrupted": True}),
    ):
        for key, values in vectors(trained(name, **options)).items():
            if (gap := float((values - results[key]).abs().max())) > TOLERANCE:
                raise FlatFedError(f"{file}: {key} changes by {gap:.1e} with {change}")
        yield f"the same results with {change}"
    for key in (key for key, values in results.items() if not values.any()):
        yield f"hint: {key} is declared and stays 0"


def vectors(run: Simulation) -> dict[str, Tensor]:
    clients = {f"client vector {name!r}": values for name, values in run.state.store.items()}
    return {f"server vector {name!r}": values for name, values in run.server.items()} | clients


def trained(name: str, executor: str, backwards: bool = False, interrupted: bool = False) -> Simulation:
    """Return a finished simulation; ``backwards``: reverse the clients that have equally many local steps.

    :raises FlatFedError: the algorithm keeps state that a checkpoint does not contain.
    """
    algorithm, pauses = algorithms.build(name, {}), itertools.count()

    def pause() -> None:
        if interrupted and run.round == 1 and next(pauses) == 3:
            raise Interruption

    rng, sizes = np.random.default_rng(1), (sum(SIZES),) if algorithm.central else SIZES
    labels = rng.integers(0, 3, sum(SIZES) + TEST)
    images = (rng.integers(0, 200, (len(labels), 1, 8, 8)) + 18 * labels[:, None, None, None]).astype(np.uint8)
    data = Dataset("toy", images, labels, None, 3, sum(SIZES), TEST, "", ())
    test, offsets = np.arange(sum(SIZES), len(labels)), np.cumsum([0, *sizes])
    partition = Partition(rng.permutation(sum(SIZES)), offsets, test, np.zeros((len(sizes), 3)), {}, "")
    needs = {"local_steps": 7} if algorithm.central else {}
    needs |= {"topology": {"graph": "ring"}} if algorithm.decentralised else {}
    sampling = {"scheme": "all"} if needs else {"scheme": "fixed", "fraction": 0.67, "sampler": "keyed"}
    scheme = {"scheme": "central" if algorithm.central else "iid", "clients": len(sizes)}
    update = {"name": name, "params": {}}
    config = RunConfig(**SETTINGS, algorithm=name, update=update, partition=scheme, sampling=sampling, **needs)
    run = assembly.simulation(config, data, partition, torch.device("cpu"), executor, algorithm=algorithm, pause=pause)
    if backwards:
        sample = run.sample
        run.sample = lambda ahead=0: batches.longest_first(sample(ahead)[::-1], run.sizes, run.schedule)
    before = dict(vars(algorithm))
    with first_round.checked(run):
        run.advance()
    while run.round < ROUNDS:
        with contextlib.suppress(Interruption):
            run.advance()
    if changed := [key for key, value in vars(algorithm).items() if before.get(key) is not value]:
        place = f"{inspect.getfile(type(algorithm))}: {type(algorithm).__name__}.{changed[0]}"
        raise FlatFedError(f"{place}: changes in a round, but checkpoints contain only vectors; declare a vector")
    return run
