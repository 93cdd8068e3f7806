"""The parsed files of the configuration: a call of Snakemake reads them once, its jobs take a copy of the contents."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Path -> content of each file that this process has read.
contents: dict[str, Any] = {}

#: The same of the call whose job this process is; None in other processes.
_copy: dict[str, Any] | None = None


def use(copy: dict[str, Any]) -> None:
    """Take contents and lists of files from ``copy``, the :data:`contents` of another process."""
    global _copy
    _copy = copy


def content(path: Path, parse: Callable[[Path], Any]) -> Any:
    """Return the content of ``path``, JSON values: of the copy, else what ``parse`` returns."""
    key = os.path.realpath(path)
    if _copy is not None and key in _copy:
        return _copy[key]
    contents[key] = parse(path)
    return contents[key]


def listed(folder: Path, ending: str) -> list[Path]:
    """Return the sorted files with ``ending`` in ``folder``, without an editor's hidden lock and swap files."""
    if _copy is None:
        return sorted(folder.glob(f"[!.]*{ending}"))
    top = os.path.realpath(folder)
    return sorted(folder / Path(key).name for key in _copy if os.path.dirname(key) == top and key.endswith(ending))
