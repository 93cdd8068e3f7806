"""Where client state goes by its size, and sizes in words. Pure Python."""

from __future__ import annotations

#: Client state lies on the device, or in memory, where so many times as much is free there.
SPARE = 2


def home(size: int, on_device: int | None, in_memory: int) -> str:
    """Return where ``size`` bytes of client state go: ``device``, ``memory`` or (memory-mapped) ``file``.

    ``on_device`` bytes that are free on a GPU, None where there is none; ``in_memory`` bytes free on the host.
    """
    if on_device is not None and size * SPARE <= on_device:
        return "device"
    return "memory" if size * SPARE <= in_memory else "file"


def in_units(count: float) -> str:
    """Write bytes in a unit of three figures or so."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1e3:.0f} kB"
