"""The registry: one file an algorithm, the file's name is its id. Nothing here imports torch.

The algorithm's class has the file's name, capitals and underscores aside (``fedlesam_s.py``: ``FedLESAMS``); a file may
define others beside it. Names beginning with an underscore are building blocks.
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
    """Return the class of algorithm ``name``; ConfigError if there is no such file or no such class in it."""
    if name not in names():
        raise ConfigError(unknown("algorithm", name, names(), "algorithms"))
    module = importlib.import_module(f"{__name__}.{name}")
    wanted = name.replace("_", "")
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Algorithm) and value.__name__.lower() == wanted:
            return value
    raise ConfigError(
        f"{module.__file__}: defines no subclass of flatfed.algorithms.Algorithm called {wanted!r}, capitals aside"
    )
