"""Out of memory: a run goes on with less at a time, or ends with how much it wants and what helps; never a trace."""

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

#: What torch, its libraries and the C++ library say, in errors of no type of their own.
SIGNS = re.compile(r"out of memory|you tried to allocate|ALLOC_FAILED|bad_alloc", re.IGNORECASE)
ASKED = re.compile(r"(?:tried|unable) to allocate ([\d.]+ \w+)", re.IGNORECASE)

Result = TypeVar("Result")


def is_shortage(error: BaseException | None) -> bool:
    """Return whether ``error``, or what it came of, says that memory ran out, on a GPU or on the host.

    A CUDA graph that runs out while it is recorded ends with another error about the recording.
    """
    if error is None or isinstance(error, torch.OutOfMemoryError | MemoryError):
        return error is not None
    names_it = isinstance(error, RuntimeError) and SIGNS.search(str(error)) is not None
    return names_it or is_shortage(error.__context__)


def asked(error: BaseException) -> str:
    """Return what ``error`` says was asked for, empty where it does not."""
    amount = ASKED.search(str(error))
    return f"; {amount[1]} more were asked for" if amount else ""


@contextlib.contextmanager
def explained(device: torch.device, what: str, helps: str = "") -> Iterator[None]:
    """Turn an error that says memory ran out during ``what`` into a Shortage.

    :raises Shortage: naming the device, and what ``helps``, in a sentence; "" for what helps a training.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_shortage(error):
            raise
        short = f"{what}: not enough memory on {name_of(device)}{asked(error)}"
        raise Shortage(f"{short}. {helps or remedies(device)}") from None


def retried(
    attempt: Callable[[], Result], spare: Callable[[str], None], unless: Callable[[], bool] = lambda: False
) -> Result:
    """Return what ``attempt`` returns; where memory runs out, have ``spare`` make it take less, and try again.

    ``spare`` is given what :func:`asked` says, and raises Shortage where there is nothing left to take less of.
    ``unless``: whether an attempt that failed may not be made again.
    """
    while True:
        try:
            return attempt()
        except (RuntimeError, MemoryError) as error:
            if unless() or not is_shortage(error):
                raise
            more = asked(error)
        # Here and not above: while an error is handled, it holds on to what was computed so far.
        spare(more)


def advance(run: Simulation) -> dict[str, float] | None:
    """Have ``run`` advance a round, and return what it returns; begin it again with less where memory runs out.

    :raises Shortage: there is nothing left to take less of.
    """

    def final() -> bool:
        return not run.state.consistent or run.pending is not None

    return retried(run.advance, lambda more: spare(run, more), unless=final)


def spare(run: Simulation, more: str) -> None:
    """Have ``run`` take less memory in its next round than in the one that failed; say so.

    Client state goes from the device to the host, where it takes as much as one more matrix of the rows that trained at
    a time, since no number changes by that; else half as many clients train at a time. Without a server it is the other
    way round: the store is mixed where it lies, and a CPU rounds otherwise than a GPU. ``more``: what :func:`asked`
    gave.

    :raises Shortage: clients train one at a time as it is, or the host has no room for their state.
    """
    run.local_update.release()  # buffers have as many rows as the largest block so far
    release()
    rows = run.block(len(run.sample()))
    state, row = run.state, run.layout.size * run.dtype.itemsize
    taken = state.row_bytes() * run.clients
    mixed = run.algorithm.decentralised and rows > 1
    if state.home == "device" and not mixed and taken >= rows * row:
        state.move_out(home.on_host(taken))
        now = f"client state ({sizes.in_units(taken)}) goes to the host's {state.home}"
    elif rows > 1:
        run.limit_rows(-(-rows // 2))
        now = f"{run.rows} client(s) at a time now, not {rows}: the same numbers up to rounding"
    else:
        raise Shortage(
            f"round {run.round + 1}: not enough memory on {name_of(run.device)} for one client at a time{more}; "
            f"client state takes {sizes.in_units(taken)} of the {state.home}. {remedies(run.device)}"
        )
    print(f"round {run.round + 1}: not enough memory on {name_of(run.device)}{more}; {now}", file=sys.stderr)


def release() -> None:
    """Give back what nothing refers to any more, so that the next attempt may have it."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def remedies(device: torch.device) -> str:
    """Return what to change, by the names that the configuration has."""
    other = "`device: cpu`, " if device.type == "cuda" else ""
    return (
        f"What helps: nothing else on the device, one with more memory, {other}or in the protocol `executor: "
        f"sequential`, a smaller `batch_size` (of `evaluation`, too), `precision: float32`"
    )


def name_of(device: torch.device) -> str:
    """Return the name of the device, with how much memory it has free."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        name = torch.cuda.get_device_name(device)
        return f"{name} ({sizes.in_units(free)} of {sizes.in_units(total)} free)"
    return f"{device.type} ({sizes.in_units(available.available())} free)"
