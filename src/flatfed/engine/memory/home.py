"""The memory that holds client state."""

from __future__ import annotations

import shutil
import tempfile

import torch

from flatfed.engine.memory.available import available
from flatfed.engine.memory.sizes import in_units
from flatfed.errors import Shortage

SPARE = 2  # a home must have this many times the state's size free


def choose(size: int, device: torch.device, requested: str | None = None) -> str:
    """Return the home of ``size`` bytes of client state: ``device``, ``memory`` or (memory-mapped) ``file``.

    ``requested``: the home that the run's settings name.

    :raises Shortage: the disk is too small; a write would end the process without a message.
    """
    if requested in ("device", "memory"):
        return requested
    if requested is None:
        if device.type == "cuda" and size * SPARE <= torch.cuda.mem_get_info(device)[0]:
            return "device"
        if size * SPARE <= available():
            return "memory"
    folder = tempfile.gettempdir()
    if size > (room := shutil.disk_usage(folder).free):
        raise Shortage(
            f"client state: {in_units(size)} exceed half of the free memory and the space in {folder} "
            f"({in_units(room)}). What helps: TMPDIR set to a folder on a larger disk, or more memory"
        )
    return "file"
