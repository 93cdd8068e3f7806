"""What the C library does with memory that torch frees."""

from __future__ import annotations

import contextlib
import ctypes

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # numbers of glibc's mallopt


def reuse_memory() -> None:
    """Have the C library keep what is freed instead of giving it back to the system, where it can be told to (glibc).

    Otherwise every layer's output is made of new pages, which costs a CNN a quarter of a training step and a third of a
    forward pass (benchmarks/memory.py, benchmarks/surface.py). No number changes.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(MMAP_THRESHOLD, 1 << 30)
        library.mallopt(TRIM_THRESHOLD, (1 << 31) - 1)
