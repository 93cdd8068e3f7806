"""The registry: one file an algorithm, the file's name is its id. Nothing here imports torch.

The algorithm's class has the file's name, capitals and underscores aside (``fedlesam_s.py``: ``FedLESAMS``); a file may
define others beside it. Names beginning with an underscore are building blocks.

``algorithm_folders`` in config.yaml adds files of other folders (:mod:`flatfed.user_files`).
"""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Mapping
from typing import Any

from flatfed.algorithms import _hooks
from flatfed.algorithms._base import Algorithm, Choice, Number, Whole
from flatfed.algorithms._claims import Claims, Reduction
from flatfed.errors import ConfigError
from flatfed.user_files import UserFiles

__all__ = [
    "FILES",
    "Algorithm",
    "Choice",
    "Claims",
    "Number",
    "Reduction",
    "Whole",
    "known",
    "load",
    "look_in",
    "made",
    "names",
    "own_files",
]

#: FlatFed's algorithms, and those of the user's folders.
FILES = UserFiles(
    "algorithm", __name__, (module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
)
look_in, names, own_files = FILES.look_in, FILES.names, FILES.own_files


def load(name: str) -> type[Algorithm]:
    """Return the class of algorithm ``name``.

    Raises ConfigError if there is no such file, none that can be imported, or one with a slip in a hook's name or
    parameters (:mod:`flatfed.algorithms._hooks`).
    """
    return _load(name, tuple(__path__))


@functools.cache
def _load(name: str, folders: tuple[str, ...]) -> type[Algorithm]:
    """Load from ``folders``, once: a configuration asks thousands of times, and listing folders takes long."""
    if name not in names():
        raise FILES.unknown(name, names(), "algorithms")
    module = FILES.load(name)
    wanted = name.replace("_", "")
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Algorithm) and value.__name__.lower() == wanted:
            _hooks.check(value)
            return value
    raise ConfigError(
        f"{module.__file__}: defines no subclass of flatfed.algorithms.Algorithm called {wanted!r}, capitals aside; a "
        f"file that is no algorithm has a name that begins with an underscore"
    )


def made(name: str, params: Mapping[str, Any]) -> Algorithm:
    """Return the algorithm ``name`` with the hyper-parameters ``params``, as ``update`` of a run description has them.

    :raises ConfigError: there is no such algorithm, no such parameter, or a value that it cannot have.
    """
    return load(name)(**params)
