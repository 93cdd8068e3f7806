"""Which executor computes a run's gradients: one by name or, for ``executor: auto``, the fastest in a short trial.

Which one wins depends on the model, the device and the number of rows, and clocks are never quite the same: what was
measured and picked is part of the run, written to run.json and the checkpoint and kept when a run goes on.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from flatfed.engine import executors
from flatfed.engine.checks import trial_batch
from flatfed.engine.speed.recording import Recorded, recorder
from flatfed.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.engine.simulation import Simulation

AUTO = "auto"
ON = {"cpu": ("sequential", "stacked"), "cuda": ("sequential", "stacked", "streams", "graph", "branches")}
STEPS = 2  # local steps of a measurement
TIMES = 3  # measurements, of which the median counts
ENOUGH = 3.0  # seconds after which an executor is not measured again


def set_executor(run: Simulation, name: str) -> None:
    """Have the executor called ``name`` compute the gradients of ``run``.

    :raises ConfigError: there is none, or it cannot run this model here.
    """
    run.set_executor(executors.kind(name))
    if run.executor.recorded and run.data.images.device.type != run.device.type:
        gigabytes = run.data.images.nbytes / 1e9
        raise ConfigError(
            f"executor {name}: the images ({gigabytes:.1f} GB) lie in host memory, from which a recorded step "
            "cannot gather; use sequential, stacked or streams"
        )
    trial_batch.check(run.executor, tuple(run.description["dataset"]["shape"]), run.private, run.dtype, run.device)
    if run.executor.recorded:
        run.local = Recorded(run.local, recorder(run.device))


def trial(run: Simulation, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """Have ``run``, before its first round, train with the fastest executor; return what was measured.

    Or what is ``known`` from another seed that trains beside it: they meet where they have the same executor.

    That is ``rows``, the clients of the first round; ``seconds`` name -> of a local step of all of them; ``failed``
    name -> reason why an executor cannot run this model here; ``picked``. Nothing of the run's state changes: copies of
    the first round's rows are trained. Raises ConfigError if no executor can.
    """
    if known is not None:
        set_executor(run, known["picked"])
        return known
    order, seconds, failed = run.active(), {}, {}
    for name in ON[run.device.type]:
        try:
            set_executor(run, name)
            seconds[name] = _measured(run, order)
        except (ConfigError, RuntimeError) as error:
            failed[name] = str(error).splitlines()[0]
    if not seconds:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
        names = ", ".join(ON[run.device.type])
        raise ConfigError(f"executor: auto: none of {names} can run this model here ({reasons})")
    picked = min(seconds, key=seconds.__getitem__)
    set_executor(run, picked)
    return {"rows": len(order), "seconds": seconds, "failed": failed, "picked": picked}


def _measured(run: Simulation, order: np.ndarray) -> float:
    """Return the median seconds of a local step of clients ``order``, after one that is not counted."""
    rate = torch.full((), run.learning_rate(), dtype=run.dtype, device=run.device)
    took = []
    began = time.monotonic()
    while len(took) <= TIMES and not (took and time.monotonic() - began > ENOUGH):
        took.append(_once(run, order, rate))
    return float(np.median(took[1:] or took))


def _once(run: Simulation, order: np.ndarray, rate: torch.Tensor) -> float:
    """Return the seconds of a local step of clients ``order``, in the executor's blocks of rows."""
    size = run.executor.block or len(order)
    total = 0.0
    for part in np.split(order, range(size, len(order), size)):
        plan = run.plan(part)
        plan = replace(plan, steps=np.minimum(plan.steps, STEPS))
        w, ctx = run.open(part, rate, {name: values.clone() for name, values in run.state.gather(part).items()})
        run.clock.wait()
        began = time.monotonic()
        run.local.train(w, plan, ctx)
        run.clock.wait()
        total += (time.monotonic() - began) / plan.length
    return total
