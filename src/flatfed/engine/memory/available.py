"""Free memory of the host."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Iterator
from pathlib import Path

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # numbers of glibc's mallopt


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


def available(root: Path = Path("/")) -> int:
    """Return how many bytes this process may still allocate: the free memory, limited by its cgroups.

    The file cache counts as free. ``root``: the folder of proc and sys.
    """
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    with contextlib.suppress(OSError, AttributeError):
        line = re.search(r"^MemAvailable: +(\d+) kB", (root / "proc/meminfo").read_text(), re.MULTILINE)
        free = int(line[1]) * 1024
    return min([free, *_cgroup_room(root)])


def _cgroup_room(root: Path) -> Iterator[int]:
    """Yield the remaining bytes of each limited cgroup (versions 1 and 2)."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = Path(path.lstrip("/"))
        for folder in [top / part for part in (group, *group.parents)]:
            with contextlib.suppress(OSError, ValueError):  # "max": no limit
                limit, usage = (int((folder / name).read_text()) for name in names[:2])
                cached = re.search(rf"^{names[2]} (\d+)$", (folder / "memory.stat").read_text(), re.MULTILINE)
                yield max(0, limit - usage + (int(cached[1]) if cached else 0))
