"""Memory: the home of client state, and the remedies when a job runs out of it."""

from __future__ import annotations

import contextlib
import ctypes
import re
import shutil
import tempfile
from collections.abc import Iterator

import torch

from flatfed.engine.job.progress import in_units
from flatfed.errors import Shortage

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # numbers of glibc's mallopt
SPARE = 2  # a GPU must have this many times the state's size free
#: Messages of errors without a special type.
SIGNS = re.compile(r"out of memory|you tried to allocate|ALLOC_FAILED|bad_alloc", re.IGNORECASE)
REMEDIES = (
    "What helps: no other process on the device, or in the protocol `rows` below the clients of a round, `state: file` "
    "or a smaller `batch_size` of `evaluation`; from the first round again: `executor: sequential`, a smaller "
    "`batch_size`, `device: cpu`, or a device with more memory"
)
REQUESTED = re.compile(r"(?:tried|unable) to allocate ([\d.]+ \w+)", re.IGNORECASE)


def reuse_memory() -> None:
    """Make the C library (glibc) keep freed memory.

    Otherwise every layer's output needs new pages, which slows a CNN's training steps. No number changes.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)
        # Older versions refuse more than 32 MiB.
        if library.mallopt(MMAP_THRESHOLD, 1 << 30) or library.mallopt(MMAP_THRESHOLD, 1 << 25):
            library.mallopt(TRIM_THRESHOLD, (1 << 31) - 1)


def trim_memory() -> None:
    """Return the memory that the C library keeps; the next allocations are slow again."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def choose_home(size: int, device: torch.device, requested: str | None = None) -> str:
    """Return the home of ``size`` bytes of client state: ``device``, ``memory`` or (memory-mapped) ``file``.

    ``requested``: the home that the run's settings name; by default, a GPU with enough memory, otherwise the host.

    :raises Shortage: the disk is too small; a write would end the process without a message.
    """
    folder = tempfile.gettempdir()
    if requested == "file" and size > (room := shutil.disk_usage(folder).free):
        raise Shortage(
            f"client state: {in_units(size)} exceed the space in {folder} ({in_units(room)}). What helps: TMPDIR set "
            "to a folder on a larger disk, or in the protocol `state: memory`"
        )
    fits = device.type == "cuda" and size * SPARE <= torch.cuda.mem_get_info(device)[0]
    return requested or ("device" if fits else "memory")


def is_shortage(error: BaseException | None) -> bool:
    """Return whether ``error`` or its context reports a lack of memory, on a GPU or on the host."""
    if error is None or isinstance(error, torch.OutOfMemoryError | MemoryError):
        return error is not None
    reported = isinstance(error, RuntimeError) and SIGNS.search(str(error)) is not None
    return reported or is_shortage(error.__context__)


@contextlib.contextmanager
def explained(device: torch.device, activity: str, remedies: str = REMEDIES) -> Iterator[None]:
    """Turn a lack of memory during ``activity`` into a Shortage with ``remedies``, a sentence."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_shortage(error):
            raise
        amount = REQUESTED.search(str(error))
        message = f"{activity}: not enough memory on {name_of(device)}"
        raise Shortage(f"{message}{f'; {amount[1]} more were requested' if amount else ''}. {remedies}") from None


def name_of(device: torch.device) -> str:
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        name = torch.cuda.get_device_name(device)
        return f"{name} ({in_units(free)} of {in_units(total)} free)"
    return device.type
