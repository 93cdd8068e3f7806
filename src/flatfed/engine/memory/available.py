"""Memory of the host: how much may still be taken, and what the C library does with what torch frees."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Iterator
from pathlib import Path

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # numbers of glibc's mallopt


def reuse_memory() -> None:
    """Have the C library keep what is freed instead of giving it back to the system, where it can be told to (glibc).

    Otherwise every layer's output is made of new pages, which costs a CNN up to a third of a training step.
    No number changes.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)
        # Older versions refuse more than 32 MiB. Once told when to trim, none adapts the other threshold by itself.
        if library.mallopt(MMAP_THRESHOLD, 1 << 30) or library.mallopt(MMAP_THRESHOLD, 1 << 25):
            library.mallopt(TRIM_THRESHOLD, (1 << 31) - 1)


def give_back() -> None:
    """Have the C library give back what :func:`reuse_memory` made it keep; the next allocations are slow again."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def available(root: Path = Path("/")) -> int:
    """Return how many bytes this process may still take: what the machine has free, and its cgroups leave.

    Slurm and containers limit memory by cgroups; files that the system keeps in memory are given up when it is asked
    for more, and count as free. ``root``: the folder that proc and sys are in.
    """
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    with contextlib.suppress(OSError, AttributeError):
        line = re.search(r"^MemAvailable: +(\d+) kB", (root / "proc/meminfo").read_text(), re.MULTILINE)
        free = int(line[1]) * 1024
    return min([free, *_left(root)])


def _left(root: Path) -> Iterator[int]:
    """Yield what each limited cgroup that this process is in leaves of its limit, of cgroups of version 2 and 1."""
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
        own = Path(path.lstrip("/"))
        for folder in [top / part for part in (own, *own.parents)]:
            with contextlib.suppress(OSError, ValueError):  # "max": no limit
                limit, used = (int((folder / name).read_text()) for name in names[:2])
                cached = re.search(rf"^{names[2]} (\d+)$", (folder / "memory.stat").read_text(), re.MULTILINE)
                yield max(0, limit - used + (int(cached[1]) if cached else 0))
