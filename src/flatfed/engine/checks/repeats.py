"""The same state gives the same numbers: rounds draw from no global generator, and some are computed twice.

Otherwise two runs of a seed, or a run that was interrupted, would differ.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from flatfed import algorithms, models
from flatfed.algorithms._names import location
from flatfed.engine import hooks
from flatfed.engine.client_state import Vectors
from flatfed.engine.client_updates import ClientUpdates
from flatfed.engine.simulation import Simulation
from flatfed.errors import FlatFedError
from flatfed.models import user_model

GPU_TOLERANCE = 1e-3  # some kernels of a GPU add in any order; relative

#: Hooks of a client's first local step.
HOOKS = (
    *("start", "second_model", "loss", "transform", "perturbation", "update_dual", "correct", "update", "update_local"),
    "finish",
)


@contextmanager
def checked(run: Simulation) -> Iterator[None]:
    """Refuse a round of ``run`` that draws from a global generator.

    In rounds 1, 2, 4, 8, ... two copies of a client are trained for a step first (not on a GPU, which may have recorded
    it), and ``aggregate`` is called twice. No number of ``run`` changes.

    :raises FlatFedError: naming the hook or the model that has other results the second time.
    """
    number, before = run.round + 1, random_states(run.device)
    repeats = run.pending is None and number & (number - 1) == 0
    same = not repeats or run.device.type != "cpu" or _repeats_step(run)
    _refuse_draws(run, before)
    if not same:
        raise _refusal(run, HOOKS)
    if repeats and not run.algorithm.decentralised:
        run.aggregate = partial(_aggregate_twice, run)
    try:
        yield
    finally:
        vars(run).pop("aggregate", None)
    _refuse_draws(run, before)


def random_states(device: torch.device) -> dict[str, object]:
    """Return name -> state of the process's random generators."""
    states = user_model.generator_states()
    if device.type == "cuda":
        states["the GPU"] = bytes(torch.cuda.get_rng_state(device).numpy())
    return states


def _refuse_draws(run: Simulation, before: dict[str, object]) -> None:
    after = random_states(run.device)
    if generators := [name for name, state in before.items() if after[name] != state]:
        raise FlatFedError(
            f"algorithm {type(run.algorithm).__name__} or model {type(run.model).__name__} draws from "
            f"{generators[0]}'s generator, whose values depend on earlier draws; expected: ctx.uniform in a hook, and "
            "in a model the masks that `forward` receives"
        )


def _refusal(run: Simulation, names: tuple[str, ...]) -> FlatFedError:
    file = models.own_file(run.config.model.name)
    places = [f"{file}: forward"] if file and names is HOOKS else []
    if not places or algorithms.own_file(run.config.update.name):
        places += hooks.overridden(run.algorithm, *names) or [inspect.getfile(type(run.algorithm))]
    return FlatFedError(
        f"{' or '.join(places)}: returns other numbers for the same values the second time, so two runs of a seed "
        "would differ; expected: random numbers from ctx.uniform in `start`, `finish` or `aggregate`, state in "
        "declared vectors, the number of the step from ctx.step, and in a model the masks that `forward` receives"
    )


def _repeats_step(run: Simulation) -> bool:
    """Train two copies of the round's first client for a step; return whether their results have the same bits."""
    twin, clients = copy.copy(run), run.sample()[:1]
    twin.algorithm = algorithm = copy.copy(run.algorithm)
    update = replace(run.local_update.plain, algorithm=algorithm, pause=lambda: None)
    plan = run.plan(clients)
    plan = replace(plan, steps=np.ones_like(plan.steps))
    rows = (run.gather(clients) for _ in range(2))
    # Hook by hook: a counter that `start` sets to 0 and each step increases then differs between the copies.
    copies = [twin.begin_clients(clients, vectors) for vectors in rows]
    for w, ctx in copies:
        update.run(w, plan, ctx)
    vectors = (({"w": w}, hooks.finish(algorithm, w, ctx), ctx.client, ctx.scratch) for w, ctx in copies)
    results = ([value for named in mappings for value in named.values()] for mappings in vectors)
    # As bytes: NaN is not equal to NaN.
    first, second = ([values.detach().contiguous().view(torch.uint8) for values in result] for result in results)
    return all(map(torch.equal, first, second))


def _aggregate_twice(run: Simulation, clients: np.ndarray, updates: ClientUpdates) -> Vectors:
    """Aggregate twice and return the server's vectors; refuse other results, and uploads that changed."""
    aggregate, twin, uploads = type(run).aggregate, copy.copy(run), updates.uploads.values()
    versions = [values._version for values in uploads]
    server = aggregate(run, clients, updates)
    if versions != [values._version for values in uploads]:
        remedy = "expected: new tensors, because metrics.csv has the distance of the uploaded models from the new one"
        raise FlatFedError(f"{location(run.algorithm.aggregate)}: changes uploads in place; {remedy}")
    twin.algorithm = copy.copy(run.algorithm)  # after the first call, whose state it has
    again = aggregate(twin, clients, copy.copy(updates))
    limit = GPU_TOLERANCE if run.device.type == "cuda" else 0
    for name, values in server.items():
        if (again[name] - values).abs().sum() > limit * values.abs().sum():
            raise _refusal(run, ("aggregate",))
    return server
