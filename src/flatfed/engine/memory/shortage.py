"""Out of memory: a run continues with smaller blocks, or stops with a message."""

from __future__ import annotations

import contextlib
import gc
import re
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import torch

from flatfed.engine.memory import available, home, sizes
from flatfed.errors import Shortage

if TYPE_CHECKING:
    from flatfed.engine.simulation import Simulation

#: Messages of errors without a special type.
SIGNS = re.compile(r"out of memory|you tried to allocate|ALLOC_FAILED|bad_alloc", re.IGNORECASE)
REQUESTED = re.compile(r"(?:tried|unable) to allocate ([\d.]+ \w+)", re.IGNORECASE)

Result = TypeVar("Result")


def is_shortage(error: BaseException | None) -> bool:
    """Return whether ``error`` or its context reports a lack of memory, on a GPU or on the host."""
    if error is None or isinstance(error, torch.OutOfMemoryError | MemoryError):
        return error is not None
    reported = isinstance(error, RuntimeError) and SIGNS.search(str(error)) is not None
    return reported or is_shortage(error.__context__)


def requested(error: BaseException) -> str:
    """Return the requested amount that ``error`` reports, or ""."""
    amount = REQUESTED.search(str(error))
    return f"; {amount[1]} more were requested" if amount else ""


@contextlib.contextmanager
def explained(device: torch.device, activity: str, remedy: str = "") -> Iterator[None]:
    """Turn a lack of memory during ``activity`` into a Shortage; ``remedy``: a sentence, "" for a training's."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_shortage(error):
            raise
        message = f"{activity}: not enough memory on {name_of(device)}{requested(error)}"
        raise Shortage(f"{message}. {remedy or remedies(device)}") from None


def retried(
    attempt: Callable[[], Result], spare: Callable[[str], None], unless: Callable[[], bool] = lambda: False
) -> Result:
    """Return the result of ``attempt``; after a lack of memory, call ``spare`` and retry, except if ``unless()``.

    ``spare`` receives :func:`requested` of the error, and reduces the memory of the next attempt or raises Shortage.
    """
    while True:
        try:
            return attempt()
        except (RuntimeError, MemoryError) as error:
            if unless() or not is_shortage(error):
                raise
            amount = requested(error)
        # After the except block: inside it, the error keeps its frames' tensors alive.
        spare(amount)


def advance(run: Simulation) -> dict[str, float] | None:
    """Advance ``run`` by a round; after a lack of memory, retry with less."""
    return retried(run.advance, lambda amount: spare(run, amount), unless=lambda: not run.state.consistent)


def spare(run: Simulation, amount: str) -> None:
    """Reduce the memory of ``run``'s next round, and report it.

    Client state as large as a matrix of the training rows moves from the device to the host first, which changes no
    number. Otherwise half as many clients train at a time. Without a server the order is reversed: mixing on a CPU
    rounds differently. If an evaluation lacks memory, recorded steps release theirs; later they record fewer rows.
    ``amount``: result of :func:`requested`.

    :raises Shortage: clients train one at a time already, an evaluation lacks memory without recorded steps, or the
        host has no room for client state.
    """
    kept = run.local_update.release()  # its buffers have the size of the largest block so far
    run.evaluate.score.release()
    release()
    trains = run.pending is None
    rows = run.block(len(run.sample())) if trains else min(kept, run.row_limit or kept)
    number, state, row = run.round + trains, run.state, run.layout.size * run.dtype.itemsize
    state_bytes = state.row_bytes() * run.client_count
    mixed = run.algorithm.decentralised and rows > 1
    if state.home == "device" and not mixed and state_bytes >= max(rows, 1) * row:
        state.move_out(home.on_host(state_bytes))
        change = f"client state ({sizes.in_units(state_bytes)}) goes to the host's {state.home}"
    elif rows > trains:
        run.row_limit = -(-rows // 2)
        change = f"{run.row_limit} client(s) at a time now, not {rows}: the same numbers up to rounding"
    else:
        work = "one client at a time" if trains else "the evaluation"
        raise Shortage(
            f"round {number}: not enough memory on {name_of(run.device)} for {work}{amount}; "
            f"client state takes {sizes.in_units(state_bytes)} of the {state.home}. {remedies(run.device)}"
        )
    print(f"round {number}: not enough memory on {name_of(run.device)}{amount}; {change}", file=sys.stderr)


def release() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def remedies(device: torch.device) -> str:
    cpu = "`device: cpu`, " if device.type == "cuda" else ""
    return (
        f"What helps: no other process on the device, one with more memory, {cpu}or in the protocol `executor: "
        f"sequential`, a smaller `batch_size` (also of `evaluation`), `precision: float32`"
    )


def name_of(device: torch.device) -> str:
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        name = torch.cuda.get_device_name(device)
        return f"{name} ({sizes.in_units(free)} of {sizes.in_units(total)} free)"
    return f"{device.type} ({sizes.in_units(available.available())} free)"
