"""The registry: one file an algorithm, the file's name is its id. Nothing here imports torch.

The algorithm's class has the file's name, capitals and underscores aside (``fedlesam_s.py``: ``FedLESAMS``); a file may
define others beside it. Names beginning with an underscore are building blocks.

Files of other folders count as well, once :func:`look_in` has been told of them: those of ``algorithm_folders`` in
config.yaml, which the workflow hands to its jobs as the environment variable FLATFED_ALGORITHMS.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flatfed.algorithms import _hooks
from flatfed.algorithms._base import Algorithm, Choice, Number, Whole
from flatfed.algorithms._claims import Claims, Reduction
from flatfed.errors import ConfigError, unknown

__all__ = [
    "VARIABLE",
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

VARIABLE = "FLATFED_ALGORITHMS"  # environment variable with folders of algorithms, separated as in PATH


def look_in(folders: Iterable[str | Path], where: str) -> list[str]:
    """Take the files of ``folders`` for algorithms too; return the folders' absolute paths.

    Raises ConfigError, beginning with ``where``, for a folder that does not exist or a file called as an algorithm that
    is there already.
    """
    found = []
    for folder in folders:
        path = Path(folder).resolve()
        if not path.is_dir():
            raise ConfigError(
                f"{where}: {str(folder)!r} is not a folder; wanted: a folder of algorithms, one file each"
            )
        if str(path) not in __path__:
            for module in pkgutil.iter_modules([str(path)]):
                if module.name in names():
                    raise ConfigError(
                        f"{where}: {path / module.name}.py: there is an algorithm {module.name!r} already"
                    )
            __path__.append(str(path))
        found.append(str(path))
    return found


def names() -> list[str]:
    """Return the ids of all algorithms, sorted."""
    found = pkgutil.iter_modules(__path__)
    return sorted(module.name for module in found if not (module.ispkg or module.name.startswith("_")))


def own_files(name: str) -> list[Path]:
    """Return the files of a user's algorithm: its own and the ``_*.py`` in its folder; [] for one of FlatFed."""
    for folder in map(Path, __path__[1:]):
        if (folder / f"{name}.py").is_file():
            return [folder / f"{name}.py", *sorted(folder.glob("_*.py"))]
    return []


def unknown_algorithm(name: Any, there: Iterable[str], where: str) -> ConfigError:
    """Return the error for an algorithm that is not ``there``; it says how one of the user's own is found."""
    own = "one of your own is found in a folder that `algorithm_folders` in config.yaml names"
    return ConfigError(f"{unknown('algorithm', name, there, where)}; {own}")


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
        raise unknown_algorithm(name, names(), "algorithms")
    spec = importlib.util.find_spec(f"{__name__}.{name}")
    try:
        module = importlib.import_module(spec.name)
    except ConfigError as error:  # of a class that cannot be
        raise ConfigError(f"{spec.origin}: {error}") from error
    except Exception as error:  # the file may be a user's, and do anything
        kind = type(error).__name__
        raise ConfigError(f"{spec.origin}: cannot be imported as an algorithm: {kind}: {error}") from error
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
