"""Out of memory: a job stops with a message that names the remedies."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import torch

from flatfed.engine.memory import available, sizes
from flatfed.errors import Shortage

#: Messages of errors without a special type.
SIGNS = re.compile(r"out of memory|you tried to allocate|ALLOC_FAILED|bad_alloc", re.IGNORECASE)
REQUESTED = re.compile(r"(?:tried|unable) to allocate ([\d.]+ \w+)", re.IGNORECASE)


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
def explained(device: torch.device, activity: str, remedies: str) -> Iterator[None]:
    """Turn a lack of memory during ``activity`` into a Shortage with ``remedies``, a sentence."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_shortage(error):
            raise
        message = f"{activity}: not enough memory on {name_of(device)}{requested(error)}"
        raise Shortage(f"{message}. {remedies}") from None


def remedies(device: torch.device, rows: int = 1, home: str | None = "memory") -> str:
    """Return the remedies for a training of ``rows`` clients at a time with client state, if any, in ``home``."""
    keys = [f"`rows: {-(-rows // 2)}`"] if rows > 1 else []
    keys += {"device": ["`state: memory` or `file`"], "memory": ["`state: file`"]}.get(home, [])
    keys += ["a smaller `batch_size` of `evaluation`"]
    restart = "`executor: sequential`, " * (rows > 1) + "a smaller `batch_size`"
    cpu = ", `device: cpu`" if device.type == "cuda" else ""
    return (
        f"What helps: no other process on the device, or in the protocol {', '.join(keys)}; from the first round "
        f"again: {restart}, a device with more memory{cpu}"
    )


def name_of(device: torch.device) -> str:
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        name = torch.cuda.get_device_name(device)
        return f"{name} ({sizes.in_units(free)} of {sizes.in_units(total)} free)"
    return f"{device.type} ({sizes.in_units(available.available())} free)"
