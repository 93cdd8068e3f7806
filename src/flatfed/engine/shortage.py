"""Out of memory: a run goes on with less at a time, or ends with how much it wants and what helps; never a trace."""

from __future__ import annotations

import contextlib
import gc
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from flatfed.engine import memory, sizes
from flatfed.errors import FlatFedError

if TYPE_CHECKING:
    from flatfed.engine.simulation import Simulation

#: What torch, its libraries and the C++ library say, in errors of no type of their own.
SIGNS = re.compile(r"out of memory|you tried to allocate|ALLOC_FAILED|bad_alloc", re.IGNORECASE)
ASKED = re.compile(r"(?:tried|unable) to allocate ([\d.]+ \w+)", re.IGNORECASE)


class Shortage(FlatFedError):
    """There is not enough memory, and nothing left that would take less of it."""


def is_shortage(error: BaseException | None) -> bool:
    """Return whether ``error``, or what it came of, says that memory ran out, on a GPU or on the host.

    A CUDA graph that runs out while it is recorded ends with another error about the recording.
    """
    if error is None or isinstance(error, torch.OutOfMemoryError | MemoryError):
        return error is not None
    said = isinstance(error, RuntimeError) and SIGNS.search(str(error)) is not None
    return said or is_shortage(error.__context__)


def asked(error: BaseException) -> str:
    """Return what ``error`` says was asked for, empty where it does not."""
    found = ASKED.search(str(error))
    return f"; {found[1]} more were asked for" if found else ""


@contextlib.contextmanager
def told(device: torch.device, what: str, helps: str = "") -> Iterator[None]:
    """Turn an error that says memory ran out during ``what`` into a Shortage.

    :raises Shortage: naming the device, and what ``helps``, in a sentence; "" for what helps a training.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_shortage(error):
            raise
        short = f"{what}: not enough memory on {place(device)}{asked(error)}"
        raise Shortage(f"{short}. {helps or remedies(device)}") from None


def spare(run: Simulation, rows: int, more: str) -> None:
    """Have ``run`` take less memory in its next round, of which ``rows`` clients trained at a time; say so.

    Client state goes from the device to the host, where it takes as much as one more matrix of those rows, since no
    number changes by that; else half as many clients train at a time. Without a server it is the other way round: the
    store is mixed where it lies, and a CPU rounds otherwise than a GPU. ``more``: what :func:`asked` gave.

    :raises Shortage: clients train one at a time as it is.
    """
    meeting = run.local.meeting
    recording = (run.local if meeting is None else meeting.local).recording
    if recording is not None:  # its buffers have as many rows as the largest block so far
        recording.forget()
    release()
    state, row = run.state, run.layout.size * run.dtype.itemsize
    mixed = run.algorithm.decentralised and rows > 1
    if state.home == "device" and not mixed and state.row_bytes() * run.clients >= rows * row:
        state.move_out()
        if run.received is not None:
            run.received.move_out()
        now = f"client state ({sizes.said(state.row_bytes() * run.clients)}) goes to the host's {state.home}"
    elif rows > 1:
        run.rows = -(-rows // 2)
        now = f"{run.rows} client(s) at a time now, not {rows}: the same numbers up to rounding"
    else:
        from flatfed.engine import footprint

        found = footprint.sizes_of(run)
        parts = sizes.listed(found.parts())
        raise Shortage(
            f"round {run.round + 1}: not enough memory on {place(run.device)} for one client at a time{more}. Wanted: "
            f"{sizes.said(found.total)} ({parts}). {remedies(run.device)}"
        )
    print(f"round {run.round + 1}: not enough memory on {place(run.device)}{more}; {now}", file=sys.stderr)


def fewer(images: int, device: torch.device, more: str) -> int:
    """Return how many images to evaluate at a time in place of ``images``, and say so.

    :raises Shortage: it was one.
    """
    release()
    if images == 1:
        raise Shortage(f"evaluation: not enough memory on {place(device)} for one image{more}. {remedies(device)}")
    now = f"{-(-images // 2)} images are evaluated at a time now, not {images}"
    print(f"evaluation: not enough memory on {place(device)}{more}; {now}", file=sys.stderr)
    return -(-images // 2)


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


def place(device: torch.device) -> str:
    """Return the name of the device, with how much memory it has free."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        name = torch.cuda.get_device_name(device)
        return f"{name} ({sizes.said(free)} of {sizes.said(total)} free)"
    return f"{device.type} ({sizes.said(memory.available())} free)"
