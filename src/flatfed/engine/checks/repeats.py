"""The same state gives the same numbers: rounds draw from no global generator, and some are computed twice.

Otherwise two runs of a seed, or a run that was interrupted, would differ.
"""

from __future__ import annotations

import copy
import inspect
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from flatfed import models
from flatfed.algorithms._names import location
from flatfed.engine import hooks
from flatfed.engine.executors import Batch
from flatfed.engine.local_update import LocalUpdate
from flatfed.engine.simulation import ClientUpdates, Simulation
from flatfed.errors import FlatFedError
from flatfed.files import digest_arrays

GPU_TOLERANCE = 1e-3  # some kernels of a GPU add in any order; relative

#: Part of a round -> hooks that compute it; the gradient is also the model's.
PARTS = {
    "start": ("start",),
    "gradient": ("second_model", "loss", "transform"),
    "perturbation": ("perturbation",),
    "step": ("update_dual", "correct", "update"),
    "finish": ("finish",),
    "aggregate": ("aggregate",),
}


@contextmanager
def checked(run: Simulation) -> Iterator[None]:
    """Refuse a round of ``run`` that draws from a global generator.

    In rounds 1, 2, 4, 8, ... two copies of a client are trained for a step first (not on a GPU, which may have recorded
    it), and ``aggregate`` is called twice. No number of ``run`` changes.

    :raises FlatFedError: naming the hook or the model that has other results the second time.
    """
    number, before = run.round + 1, random_states(run.device)
    repeats = run.pending is None and number & (number - 1) == 0
    part = _differing_part(run) if repeats and run.device.type == "cpu" else None
    _refuse_draws(run, before)
    if part is not None:
        raise _refusal(run, part)
    if repeats and not run.algorithm.decentralised:
        run.aggregate = partial(_aggregate_twice, run)
    try:
        yield
    finally:
        vars(run).pop("aggregate", None)
    _refuse_draws(run, before)


def random_states(device: torch.device) -> dict[str, object]:
    """Return name -> state of the process's random generators."""
    _, key, position, *_ = np.random.get_state()
    states = {"torch's generator": bytes(torch.get_rng_state().numpy()), "NumPy's generator": (bytes(key), position)}
    if device.type == "cuda":
        states["torch's generator of the GPU"] = bytes(torch.cuda.get_rng_state(device).numpy())
    return states | {"Python's generator": random.getstate()}


def _refuse_draws(run: Simulation, before: dict[str, object]) -> None:
    after = random_states(run.device)
    if generators := [name for name, state in before.items() if after[name] != state]:
        raise FlatFedError(
            f"algorithm {type(run.algorithm).__name__} or model {type(run.model).__name__} draws from {generators[0]}, "
            "whose values depend on earlier draws; expected: ctx.uniform in a hook, and in a model the masks that "
            "`forward` receives"
        )


def _refusal(run: Simulation, part: str) -> FlatFedError:
    name, algorithm = run.config.model.name, run.algorithm
    places = [f"{models.own_file(name) or f'model {name}'}: forward"] if part == "gradient" else []
    places += hooks.overridden(algorithm, *PARTS[part])
    return FlatFedError(
        f"{' or '.join(places) or inspect.getfile(type(algorithm))}: returns other numbers for the same values the "
        "second time, so two runs of a seed would differ; expected: random numbers from ctx.uniform in `start`, "
        "`finish` or `aggregate`, state in declared vectors, the number of the step from ctx.step, and in a model the "
        "masks that `forward` receives"
    )


def _differing_part(run: Simulation) -> str | None:
    """Train two copies of the round's first client for a step; return the first of :data:`PARTS` that differs."""
    twin, clients = copy.copy(run), run.sample()[:1]
    twin.algorithm = algorithm = copy.copy(run.algorithm)
    twin.local_update = replace(run.local_update.plain, algorithm=algorithm, pause=lambda: None)
    plan = run.plan(clients)
    plan = replace(plan, steps=np.ones_like(plan.steps))
    rows = ({name: values.clone() for name, values in run.state.gather(clients).items()} for _ in range(2))
    # Part by part: a counter that `start` sets to 0 and each step increases then differs between the copies.
    copies = [(twin.begin_clients(clients, vectors), []) for vectors in rows]
    for (w, ctx), log in copies:
        full_gradient = [ctx.scratch["full_gradient"]] if algorithm.full_passes else []
        log += [("gradient", _digest(full_gradient)), ("start", _digest([w, *ctx.scratch.values()]))]
    for (w, ctx), log in copies:
        update = replace(twin.local_update)
        update.losses_and_gradients = partial(_log_gradients, twin.local_update, log)
        update.run(w, plan, ctx)
        log.append(("step", _digest([w, *ctx.client.values(), *ctx.scratch.values()])))
    for (w, ctx), log in copies:
        uploads = hooks.finish(algorithm, w, ctx)
        log.append(("finish", _digest([*ctx.client.values(), *uploads.values()])))
    pairs = zip(*(log for _, log in copies), strict=True)
    return next((part for (part, digest), (_, other) in pairs if digest != other), None)


def _log_gradients(update: LocalUpdate, log: list[tuple[str, str]], w: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    log.append(("perturbation", _digest([w])))
    losses, gradients = update.losses_and_gradients(w, batch)
    log.append(("gradient", _digest([losses, gradients])))
    return losses, gradients


def _digest(values: Iterable[Tensor]) -> str:
    memory = [tensor.detach().contiguous().view(torch.uint8).numpy() for tensor in values]  # NumPy has no bfloat16
    return digest_arrays(**{str(number): values for number, values in enumerate(memory)})


def _aggregate_twice(run: Simulation, clients: np.ndarray, updates: ClientUpdates) -> None:
    """Aggregate, and again on copies of the server's vectors; refuse other results, and uploads that changed."""
    aggregate, twin, uploads = type(run).aggregate, copy.copy(run), updates.uploads.values()
    twin.server = {name: values.clone() for name, values in run.server.items()}
    versions = [values._version for values in uploads]
    aggregate(run, clients, updates)
    if versions != [values._version for values in uploads]:
        remedy = "expected: new tensors, because metrics.csv has the distance of the uploaded models from the new one"
        raise FlatFedError(f"{location(run.algorithm.aggregate)}: changes uploads in place; {remedy}")
    twin.algorithm = copy.copy(run.algorithm)  # after the first call, whose state it has
    aggregate(twin, clients, copy.copy(updates))
    limit = GPU_TOLERANCE if run.device.type == "cuda" else 0
    for name, values in run.server.items():
        if (twin.server[name] - values).abs().sum() > limit * values.abs().sum():
            raise _refusal(run, "aggregate")
