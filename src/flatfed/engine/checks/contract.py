"""The contract of an algorithm, in float64 on a toy problem."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from contextlib import suppress

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

SIZES, TEST, ROUNDS = [7, 12, 5, 9, 10, 6], 8, 4
#: Largest difference of two results, absolute, and relative to the vector's largest entry: Adam amplifies rounding.
TOLERANCE, RELATIVE = 1e-12, 1e-8
SETTINGS = {
    "scale": "preview", "protocol": "toy", "split": "toy", "seed": 1, "precision": "float64",
    "dataset": {"name": "toy", "classes": 3, "shape": [1, 8, 8], "mean": [0.4], "std": [0.25]},
    "model": {"name": "cnn_tiny", "options": {}}, "augmentation": "none", "clip_norm": 1.5, "weight_decay": 0.01,
    "rounds": ROUNDS, "batch_size": 4, "local_epochs": 2, "learning_rate": 0.2, "learning_rate_decay": 0.9,
    "evaluation": {"every": ROUNDS, "sets": ["test"], "batch_size": TEST}, "checkpoint_every": ROUNDS,
    "executor": {"cpu": "sequential", "cuda": "sequential"}, "sampling": {"scheme": "all"},
}


def check(name: str) -> Iterator[str]:
    """Train algorithm ``name`` with its default parameters; yield a sentence per condition that it meets.

    :raises FlatFedError: it violates a condition.
    """
    run = trained(name, "sequential")
    file, results = inspect.getfile(type(run.algorithm)), vectors(run)
    yield "hooks return declared vectors and draw no random numbers of their own"
    if not all(values.isfinite().all() for values in results.values()):
        raise FlatFedError(f"{file}: not finite after {ROUNDS} rounds")
    if torch.equal(run.server["w"][0], run.weights.initial):
        raise FlatFedError(f"{file}: the model does not change; does `aggregate` return 'w'?")
    yield "the model changes and stays finite"
    lost = ": state in an attribute is lost; declare a vector, which checkpoints contain"
    for change, hint, other in (
        ("all clients at once", "", trained(name, "stacked")),
        ("clients in another order", "", trained(name, "sequential", backwards=True)),
        ("an interruption", lost, trained(name, "sequential", interrupted=True)),
    ):
        for key, values in vectors(other).items():
            expected = results[key]
            if (gap := float((values - expected).abs().max())) > TOLERANCE + RELATIVE * float(expected.abs().max()):
                raise FlatFedError(f"{file}: {key} changes by {gap:.1e} with {change}{hint}")
        yield f"the same results with {change}"
    yield from (f"hint: {key} is declared and stays 0" for key, values in results.items() if not values.any())
    yield from (f"hint: {text}" for text in algorithms.remarks(name))
    if run.algorithm.own_momentum:
        yield "hint: it has a momentum of its own, to which `momentum` of a protocol adds another"


def vectors(run: Simulation) -> dict[str, Tensor]:
    clients = {f"client vector {name!r}": values for name, values in run.state.store.items()}
    return {f"server vector {name!r}": values for name, values in run.server.items()} | clients


def trained(name: str, executor: str, backwards: bool = False, interrupted: bool = False) -> Simulation:
    """Return a finished simulation.

    ``backwards``: reverse the clients that have equally many local steps. ``interrupted``: repeat a round and, as a
    resumed run, build the algorithm again: state that is in no vector is lost.
    """
    algorithm, pauses, rng = algorithms.build(name, {}), itertools.count(), np.random.default_rng(1)

    def pause() -> None:
        if interrupted and run.round == 1 and next(pauses) == 3:
            raise InterruptedError

    sizes, count = [sum(SIZES)] if algorithm.central else SIZES, sum(SIZES)
    labels = rng.integers(0, 3, count + TEST)
    images = (rng.integers(0, 200, (count + TEST, 1, 8, 8)) + 18 * labels[:, None, None, None]).astype(np.uint8)
    offsets, test = np.cumsum([0, *sizes]), np.arange(count, count + TEST)
    settings = SETTINGS | {"partition": {"scheme": "iid", "clients": len(sizes)}}
    if algorithm.central:
        settings |= {"partition": {"scheme": "central", "clients": 1}, "local_steps": 7}
    elif algorithm.decentralised:
        settings |= {"topology": {"graph": "ring"}}
    else:
        settings |= {"sampling": {"scheme": "fixed", "fraction": 0.67, "sampler": "keyed"}}
    data = Dataset("toy", images, labels, None, 3, count, TEST, "", ())
    partition = Partition(rng.permutation(count), offsets, test, np.zeros((len(sizes), 3)), {}, "")
    config = RunConfig(**settings, algorithm=name, update={"name": name, "params": {}})
    parts = config, data, partition, torch.device("cpu"), executor
    run = assembly.simulation(*parts, algorithm=algorithm, pause=pause)
    if backwards:
        sample = run.sample
        run.sample = lambda ahead=0: batches.longest_first(sample(ahead)[::-1], run.sizes, run.schedule)
    with first_round.checked(run):
        run.advance()
    while run.round < ROUNDS:
        if interrupted and run.round == 2:
            run.algorithm = run.local_update.algorithm = algorithms.build(name, {})
        with suppress(InterruptedError):
            run.advance()
    return run
