"""Shares of a round's time, and the least time that the machine allows."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from flatfed.engine.simulation import Simulation
from flatfed.engine.speed.products import with_products
from flatfed.engine.weights import initial_model

Wait = Callable[[], None]

PLAN, GRADIENT, ARITHMETIC = "plan and batches", "forward and backward", "algorithm arithmetic"
STATE, AGGREGATION, REST = "client state", "aggregation", "rest"
PHASES = (PLAN, GRADIENT, ARITHMETIC, STATE, AGGREGATION, REST)

#: Row vectors (parameters,) that a local step reads or writes at least, without shared ones. A gradient is 3: forward
#: reads w, backward reads w and writes g.
VECTORS = {
    "fedavg": 3 + 1 + 3,  # norm; update: g, w, w
    "fedsam": 3 + 1 + 3 + 3 + 1 + 3,  # norm; w + e: w, g, w + e; gradient; norm; update
    "scaffold": 3 + 2 + 4,  # norm of g + correction; update
    "fedsmoo": 3 + 2 + 5 + 3 + 2 + 4,  # norm of g - mu; w + e: g, mu, w, mu, w + e; then as SCAFFOLD
}


class PhaseClock:
    """Measures the phases of a slowed-down simulation; recorded local steps count as forward and backward."""

    def __init__(self, run: Simulation, wait: Wait):
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._wait = wait
        self._running: list[str] = []
        self._since = 0.0
        self.run = run
        recorded = run.executor.records_steps
        if not recorded:  # nothing may wait for the device while steps are recorded
            kind = type(run.executor)
            call = {"__call__": self._clocked(kind.__call__, GRADIENT)}
            run.executor.__class__ = type(kind.__name__, (kind,), call)
            run.data.batch = self._clocked(run.data.batch, PLAN)
            run.local_update.batch = self._clocked(run.local_update.batch, PLAN)
        for owner, name, phase in (
            (run.local_update, "run", GRADIENT if recorded else ARITHMETIC),
            (run, "plan", PLAN),
            (run, "begin_clients", STATE),
            (run.state, "gather", STATE),
            (run.state, "commit", STATE),
            (run.algorithm, "finish", ARITHMETIC),
            (run.algorithm, "aggregate", AGGREGATION),
        ):
            setattr(owner, name, self._clocked(getattr(owner, name), phase))

    def shares(self, rounds: int) -> dict[str, float]:
        work = self._clocked(self.run.advance, REST)
        for _ in range(rounds):
            work()
        total = sum(self.seconds.values())
        return {phase: round(seconds / total, 4) for phase, seconds in self.seconds.items()}

    def _clocked(self, work: Callable[..., Any], phase: str) -> Callable[..., Any]:
        @wraps(work)
        def clocked(*arguments: Any, **options: Any) -> Any:
            self._mark()
            self._running.append(phase)
            try:
                return work(*arguments, **options)
            finally:
                self._mark()
                self._running.pop()

        return clocked

    def _mark(self) -> None:
        self._wait()
        now = time.perf_counter()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now


def peaks(device: torch.device, wait: Wait, side: int, numbers: int, products: str) -> dict[str, Any]:
    """Return ``flops`` per second of a product of matrices (side, side), and ``bytes`` per second of a float32 copy.

    ``products``: the dtype of the product.
    """
    a, b = torch.rand(2, side, side, device=device, dtype=getattr(torch, products))
    c = torch.empty_like(a)
    x = torch.rand(numbers, device=device)
    y = torch.empty_like(x)

    def best(work: Callable[[], Any]) -> float:
        taken = []
        for _ in range(7):
            wait()
            began = time.perf_counter()
            work()
            wait()
            taken.append(time.perf_counter() - began)
        return min(taken[1:])  # the first is a warm-up

    return {
        "products": products,
        "flops": 2 * side**3 / best(lambda: torch.mm(a, b, out=c)),
        "bytes": 2 * numbers * x.itemsize / best(lambda: y.copy_(x)),
    }


def gradient_flops(run: Simulation, batch: int) -> float:
    """Return the floating-point operations of an image's gradient in a ``batch``."""
    shape = tuple(run.config.dataset.shape)
    model = with_products(initial_model(run.config)[0], shape).to(run.device, run.dtype)
    images = torch.zeros(batch, *shape, dtype=run.dtype, device=run.device)
    with FlopCounterMode(display=False) as counter:
        model(images).sum().backward()
    return counter.get_total_flops() / batch


def floor(run: Simulation, active: int, steps: int, images: int, peak: dict[str, float]) -> dict[str, float]:
    """Return the least ``seconds`` of a round of ``active`` clients with ``steps`` steps over ``images`` images each.

    The larger of ``arithmetic`` (``flops``) and ``memory`` (``bytes`` of :data:`VECTORS`) at peak rates.
    """
    per_image = gradient_flops(run, run.config.batch_size)
    flops = round(active * images * run.algorithm.gradients_per_step * per_image)
    moved = active * steps * VECTORS[run.config.algorithm] * run.layout.size * run.dtype.itemsize
    arithmetic, memory = flops / peak["flops"], moved / peak["bytes"]
    return {
        "flops": flops,
        "bytes": moved,
        "arithmetic": arithmetic,
        "memory": memory,
        "seconds": max(arithmetic, memory),
    }
