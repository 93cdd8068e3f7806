"""The contract of an algorithm, in float64 on a toy problem."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatfed import algorithms
from flatfed.data.dataset import Dataset
from flatfed.data.partition import Partition
from flatfed.engine import batches
from flatfed.engine.checks import first_round, repeats
from flatfed.engine.job import assembly
from flatfed.engine.simulation import Simulation
from flatfed.errors import FlatFedError
from flatfed.runs.run_config import RunConfig

SIZES, TEST, ROUNDS = [7, 12, 5, 9, 10, 6], 8, 4
#: Largest difference of two results, absolute, and relative to the vector's largest entry: Adam amplifies rounding.
TOLERANCE, RELATIVE = 1e-12, 1e-8
COARSE = 1e-6  # relative, between different computations
SETTINGS: dict[str, Any] = {
    "scale": "preview", "protocol": "toy", "split": "toy", "seed": 1, "precision": "float64",
    "dataset": {"name": "toy", "classes": 3, "shape": [1, 8, 8], "mean": [0.4], "std": [0.25]},
    "model": {"name": "cnn_tiny", "options": {}}, "augmentation": "none", "clip_norm": 1.5, "weight_decay": 0.01,
    "rounds": ROUNDS, "batch_size": 4, "local_epochs": 1, "learning_rate": 0.2, "learning_rate_decay": 0.9,
    "evaluation": {"every": ROUNDS, "sets": ["test"], "batch_size": TEST},
    "executor": {"cpu": "sequential", "cuda": "sequential"}, "sampling": {"scheme": "all"},
}
#: Changes: 5x5 kernels on images of 2 x 2 pixels, of which 64 % only meet padding.
PADDED = {
    "dataset": SETTINGS["dataset"] | {"shape": [1, 4, 4]}, "model": {"name": "cnn_5x5", "options": {}},
    "rounds": 2, "evaluation": SETTINGS["evaluation"] | {"every": 2},
}


def check(name: str, params: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Train algorithm ``name`` with ``params``, others at their defaults; yield a sentence per condition that it meets.

    :raises FlatFedError: it violates a condition, or a parameter is refused.
    """
    update = {"update": {"name": name, "params": dict(params or {})}}
    train = partial(trained, name, **update)
    run = train("sequential")
    file, results = inspect.getfile(type(run.algorithm)), vectors(run)
    yield "hooks return declared vectors and draw no random numbers of their own"
    if not all(values.isfinite().all() for values in results.values()):
        raise FlatFedError(f"{file}: not finite after {ROUNDS} rounds")
    if torch.equal(run.server["w"][0], run.weights.initial):
        raise FlatFedError(f"{file}: the model does not change; does `aggregate` return 'w'?")
    yield "the model changes and stays finite"
    lost = ": state in an attribute is lost; declare a vector, which checkpoints contain"
    for change, hint, other in (
        ("all clients at once", "", train("stacked")),
        ("clients in another order", "", train("sequential", backwards=True)),
        ("an interruption", lost, train("sequential", interrupted=True)),
    ):
        _refuse_gaps(other, results, f"with {change}{hint}", RELATIVE)
        yield f"the same results with {change}"
    if run.algorithm.keeps_rows_whole():
        check_whole_rows(name, **update)
        yield "the same results without weights that only meet padding"
    if torch.cuda.is_available():
        check_recorded(name, results, **update)
        yield "the same results with recorded local steps on a GPU"
    yield from (f"hint: {key} is declared and stays 0" for key, values in results.items() if not values.any())
    yield from (f"hint: {text}" for text in algorithms.remarks(name))


def check_whole_rows(name: str, **changes: Any) -> None:
    """Refuse an algorithm that declares ``whole_rows`` but has other results without weights that only meet padding."""
    full, reduced = (trained(name, "stacked", full_model=full, **PADDED, **changes) for full in (True, False))
    remedy = "a hook treats coordinates differently, so remove the declaration"
    _refuse_gaps(full, vectors(reduced), f"without weights that only meet padding, but `whole_rows` is True: {remedy}")


def check_recorded(name: str, results: dict[str, Tensor], **changes: Any) -> None:
    """Refuse an algorithm whose recorded local steps on a GPU do not give the ``results``."""
    remedy = "state of Python is recorded once; declare a vector, or read ctx.step"
    recorded = trained(name, "products", device="cuda", **changes)
    _refuse_gaps(recorded, results, f"with local steps that a GPU recorded: {remedy}")


def _refuse_gaps(run: Simulation, results: dict[str, Tensor], change: str, relative: float = COARSE) -> None:
    for key, values in vectors(run).items():
        expected = results[key]
        if (gap := float((values - expected).abs().max())) > TOLERANCE + relative * float(expected.abs().max()):
            raise FlatFedError(f"{inspect.getfile(type(run.algorithm))}: {key} changes by {gap:.1e} {change}")


def vectors(run: Simulation) -> dict[str, Tensor]:
    """Return name -> rows on the CPU with all weights, in torch's order."""

    def full(row: Tensor) -> Tensor:
        tensors = run.weights.tensors(row) if len(row) == run.layout.size else {"": row}
        return torch.cat([tensor.flatten() for tensor in tensors.values()])

    clients = {f"client vector {name!r}": values for name, values in run.state.store.items()}
    stored = {f"server vector {name!r}": values for name, values in run.server.items()} | clients
    return {key: torch.stack([full(row) for row in values]).cpu() for key, values in stored.items()}


def trained(
    name: str,
    executor: str,
    backwards: bool = False,
    interrupted: bool = False,
    *,
    full_model: bool = False,
    device: str = "cpu",
    **changes: Any,
) -> Simulation:
    """Return a finished simulation of ``SETTINGS`` with ``changes``.

    ``backwards``: reverse the clients that have equally many local steps. ``interrupted``: repeat a round and, as a
    resumed run, build the algorithm again: state that is in no vector is lost.
    """
    settings = SETTINGS | {"algorithm": name, "update": {"name": name, "params": {}}} | changes
    build = partial(algorithms.build, **settings["update"])
    algorithm, pauses, rng = build(), itertools.count(), np.random.default_rng(1)

    def pause() -> None:
        if interrupted and run.round == 1 and next(pauses) == 3:
            raise InterruptedError

    sizes, count = [sum(SIZES)] if algorithm.central else SIZES, sum(SIZES)
    labels = rng.integers(0, 3, count + TEST)
    settings["partition"] = {"scheme": "iid", "clients": len(sizes)}
    images = rng.integers(0, 200, (count + TEST, *settings["dataset"]["shape"])) + 18 * labels[:, None, None, None]
    offsets, test = np.cumsum([0, *sizes]), np.arange(count, count + TEST)
    if algorithm.central:
        settings |= {"partition": {"scheme": "central", "clients": 1}, "local_steps": 7}
    elif algorithm.decentralised:
        settings |= {"topology": {"graph": "ring"}}
    else:
        settings |= {"sampling": {"scheme": "fixed", "fraction": 0.67, "sampler": "keyed"}}
    data = Dataset("toy", images.astype(np.uint8), labels, None, 3, count, TEST, "", ())
    partition = Partition(rng.permutation(count), offsets, test, np.zeros((len(sizes), 3)), {}, "")
    config = RunConfig(**settings)
    parts = config, data, partition, torch.device(device), executor
    run = assembly.simulation(*parts, algorithm=algorithm, pause=pause, full_model=full_model)
    if backwards:
        sample = run.sample
        run.sample = lambda ahead=0: batches.longest_first(sample(ahead)[::-1], run.sizes, run.schedule)
    with first_round.checked(run), repeats.checked(run):
        run.advance()
    while run.round < config.rounds:
        if interrupted and run.round == 2:
            run.algorithm = run.local_update.algorithm = build()
        with suppress(InterruptedError), repeats.checked(run):
            run.advance()
    return run
