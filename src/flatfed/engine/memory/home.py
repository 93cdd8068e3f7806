"""Where what clients keep between rounds is to lie."""

from __future__ import annotations

import shutil
import tempfile

import torch

from flatfed.engine.memory import available, sizes
from flatfed.errors import Shortage


def choose(size: int, device: torch.device) -> str:
    """Return where ``size`` bytes of client state go: ``device``, ``memory`` or (memory-mapped) ``file``.

    On the device while they take at most half of its free memory, else in host memory while at most half of that.

    :raises Shortage: as :func:`on_host`.
    """
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else None
    return "device" if sizes.home(size, free, available.available()) == "device" else on_host(size)


def on_host(size: int) -> str:
    """Return where on the host ``size`` bytes of client state go: ``memory`` or ``file``.

    :raises Shortage: a file they would need is larger than the disk has room for, on which a write would end the
        process without a word.
    """
    home = sizes.home(size, None, available.available())
    folder = tempfile.gettempdir()
    if home == "file" and size > (room := shutil.disk_usage(folder).free):
        raise Shortage(
            f"client state: {sizes.in_units(size)} are more than half of what memory has free, and more than {folder} "
            f"has ({sizes.in_units(room)}). What helps: TMPDIR set to a folder on a larger disk, or more memory"
        )
    return home
