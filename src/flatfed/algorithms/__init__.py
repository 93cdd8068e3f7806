"""The registry: one file an algorithm, the file's name is its id. Nothing here imports torch.

A file defines exactly one class of its own whose name, in lower case without underscores, is the file's name
without underscores (``fedlesam_s.py``: ``FedLESAMS``). Names beginning with an underscore are building blocks.
"""

from __future__ import annotations

import importlib
import pkgutil

from flatfed.algorithms._base import Algorithm, Choice, Number
from flatfed.errors import ConfigError, unknown

__all__ = ["Algorithm", "Choice", "Number", "load", "names"]


def names() -> list[str]:
    """Return the ids of all algorithms, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def load(name: str) -> type[Algorithm]:
    """Return the class of algorithm ``name``; ConfigError if there is none."""
    if name not in names():
        raise ConfigError(unknown("algorithm", name, names(), "algorithms"))
    module = importlib.import_module(f"{__name__}.{name}")
    for value in vars(module).values():
        if isinstance(value, type) and value.__module__ == module.__name__ and issubclass(value, Algorithm):
            return value
    raise ConfigError(f"{module.__file__}: defines no class derived from flatfed.algorithms.Algorithm")
