"""Checks around the first round of a job, before it writes results."""

from __future__ import annotations

import random
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from flatfed.algorithms._names import location
from flatfed.engine import executors
from flatfed.engine.job.memory import is_shortage
from flatfed.engine.simulation import Simulation
from flatfed.errors import ConfigError, FlatFedError


@contextmanager
def checked(run: Simulation) -> Iterator[None]:
    """Refuse a round of ``run`` whose model the executor cannot compute, or that draws random numbers of its own.

    :raises ConfigError: naming executor, model and reason.
    :raises FlatFedError: a hook that the executor calls fails; or rows and devices would draw different numbers.
    """
    model, executor, before = type(run.model).__name__, run.executor, random_states(run.device)
    try:
        yield
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        files = {frame.filename for frame in traceback.extract_tb(error.__traceback__)}
        if isinstance(error, FlatFedError) or is_shortage(error) or executors.__file__ not in files:
            raise
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        called = {frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)}
        for name in ("loss", "transform"):
            if getattr(hook := getattr(run.algorithm, name), "__code__", None) in called:
                expected = f"arguments and result as of Algorithm.{name} in flatfed/algorithms/_base.py"
                raise FlatFedError(f"{location(hook)}: {reason}; expected: {expected}") from error
        supporter = "`executor: sequential`, in the protocol," if executor.together else "No other executor"
        refusal = f"executor {executor.name} cannot run model {model}: {reason}"
        raise ConfigError(f"{refusal}. {supporter} supports more models") from error
    after = random_states(run.device)
    if generators := [name for name, state in before.items() if after[name] != state]:
        raise FlatFedError(
            f"algorithm {type(run.algorithm).__name__} or model {model} draws from {generators[0]}, whose values "
            "depend on earlier draws; expected: ctx.uniform in a hook, and in a model the masks that `forward` receives"
        )


def random_states(device: torch.device) -> dict[str, object]:
    """Return name -> state of the process's random generators."""
    _, key, position, *_ = np.random.get_state()
    states = {"torch's generator": bytes(torch.get_rng_state().numpy()), "NumPy's generator": (bytes(key), position)}
    if device.type == "cuda":
        states["torch's generator of the GPU"] = bytes(torch.cuda.get_rng_state(device).numpy())
    return states | {"Python's generator": random.getstate()}
