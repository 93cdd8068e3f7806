"""The check around the first round of a job, before it writes results."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from flatfed.algorithms._names import location
from flatfed.engine import executors
from flatfed.engine.job.memory import is_shortage
from flatfed.engine.simulation import Simulation
from flatfed.errors import ConfigError, FlatFedError


def layer(error: Exception, model: nn.Module) -> str:
    """Return name and type of the innermost layer of ``model`` that raised ``error``; "" for the model itself."""
    names = {module: name for name, module in model.named_modules() if name}
    owners = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
    layers = [owner for owner in owners if isinstance(owner, nn.Module) and owner in names]
    return f"layer {names[layers[-1]]!r} ({type(layers[-1]).__name__}): " if layers else ""


@contextmanager
def checked(run: Simulation) -> Iterator[None]:
    """Refuse a round of ``run`` whose model the executor cannot compute.

    :raises ConfigError: naming executor, model and reason.
    :raises FlatFedError: a hook that the executor calls fails.
    """
    model, executor = type(run.model).__name__, run.executor
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
        refusal = f"executor {executor.name} cannot run model {model}: {layer(error, run.model)}{reason.rstrip('.')}"
        raise ConfigError(f"{refusal}. {supporter} supports more models") from error
