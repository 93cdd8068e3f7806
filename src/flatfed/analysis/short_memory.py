"""Computations that are tried again with less at a time where memory runs out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flatfed.engine.memory import shortage


def attempt(compute: Callable[..., Any], *arguments: Any) -> tuple[Any, str | None]:
    """Return (what ``compute(*arguments)`` returns, None), or, where memory runs out, (None, words on the shortage).

    The words are those of :func:`flatfed.engine.memory.shortage.asked`. While an error is handled, it holds on to what
    was computed so far: the caller takes less, and gives memory back, after this has returned.
    """
    try:
        return compute(*arguments), None
    except (RuntimeError, MemoryError) as error:
        if not shortage.is_shortage(error):
            raise
        return None, shortage.asked(error)
