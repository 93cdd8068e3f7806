"""The registry of algorithms: one file per algorithm, whose name is the id. Nothing here imports torch.

The class has the file's name, ignoring capitals and underscores (``fedlesam_s.py``: ``FedLESAMS``). Files that begin
with an underscore are building blocks. ``folders`` in config.yaml adds files.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from flatfed.algorithms import _effects, _names
from flatfed.algorithms._base import Algorithm, Choice, Number, Whole
from flatfed.errors import ConfigError, unknown
from flatfed.user_files import REMEDY, UserFiles

__all__ = ["FILES", "Algorithm", "Choice", "Number", "Whole", "build", "load", "names", "remarks"]

#: All other files count as a user's, also in this folder: a digest is their version.
SHIPPED = (
    *("centralised_sam", "centralised_sgd", "dfedavg", "dfedavgm", "dfedsam", "dfedsam_mgs", "dispfl", "dpsgd"),
    *("fedadam", "fedavg", "fedcm", "feddyn", "fedgamma", "fedgmt", "fedlesam", "fedlesam_d", "fedlesam_s"),
    *("fedmoswa", "fedprox", "fedrobust", "fedsam", "fedsmoo", "fedspeed", "fedswa", "fedwmsam", "mimelite"),
    *("mofedsam", "scaffold"),
)
PARTS = (
    *("_base", "_context", "_effects", "_layout", "_lesam", "_names", "_parameters", "_rows", "_sam", "_steps"),
    "as_published",
)

FILES = UserFiles("algorithm", __name__, SHIPPED, PARTS)
look_in, own_file = FILES.look_in, FILES.own_file


def names() -> list[str]:
    """Return all ids, without files that define no algorithm."""
    return [name for name in FILES.names() if _may_be_algorithm(name, tuple(__path__))]


def load(name: str) -> type[Algorithm]:
    """Return the class of algorithm ``name``.

    :raises ConfigError: the file is missing, cannot be imported, or has a wrong hook
        (:mod:`flatfed.algorithms._names`).
    """
    return _load(name, tuple(__path__))


@functools.cache
def _load(name: str, folders: tuple[str, ...]) -> type[Algorithm]:
    """Load from ``folders``, cached: a configuration asks thousands of times."""
    if name not in SHIPPED and own_file(name) is None:
        raise ConfigError(f"{unknown('algorithm', name, names(), 'algorithms')}; {REMEDY}")
    module = FILES.load(name)
    kind = _class(module, name)
    if kind is None:
        class_name = name.replace("_", "")
        problem = f"defines no subclass of flatfed.algorithms.Algorithm called {class_name!r} (in any capitals)"
        if hasattr(module, "build"):
            problem += "; its function `build` is that of a model, which `flatfed check` without names builds"
        raise ConfigError(f"{module.__file__}: {problem}")
    _names.check(kind)
    return kind


def _class(module: ModuleType, name: str) -> type[Algorithm] | None:
    """Return the class of ``module`` that is algorithm ``name``."""
    classes = (value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Algorithm))
    return next((kind for kind in classes if kind.__name__.lower() == name.replace("_", "")), None)


@functools.cache
def _may_be_algorithm(name: str, folders: tuple[str, ...]) -> bool:
    """Return whether the file of ``name`` defines an algorithm or has an error, which :func:`load` raises."""
    try:
        return name in SHIPPED or _class(FILES.load(name), name) is not None
    except ConfigError:
        return True


def remarks(name: str) -> list[str]:
    """Return a clause per declaration of algorithm ``name`` without effect (:mod:`flatfed.algorithms._effects`)."""
    own = FILES.imported(name)
    return _effects.remarks(load(name), own.files if own else [])


def build(name: str, params: Mapping[str, Any]) -> Algorithm:
    """Return the algorithm ``name`` with hyper-parameters ``params``; ConfigError if one of them is invalid.

    The values of public code select classes of :mod:`flatfed.algorithms.as_published`.
    """
    kind = load(name)
    values = {key: params.get(key, parameter.default) for key, parameter in kind.parameters().items()}
    chosen = {(key, value) for key, value in values.items() if "@" in str(value)}
    return (_as_published(kind, frozenset(chosen)) if chosen else kind)(**params)


@functools.cache
def _as_published(kind: type[Algorithm], chosen: frozenset[tuple[str, str]]) -> type[Algorithm]:
    """Return ``kind`` with the public code of the ``chosen`` options (parameter, value)."""
    from flatfed.algorithms.as_published import FORMS

    forms = [form for option, form in FORMS.items() if option in chosen and issubclass(kind, form.__bases__)]
    whole_rows = all(vars(part).get("whole_rows", False) for part in (*forms, kind))
    names = {"__module__": kind.__module__, "__doc__": kind.__doc__, "whole_rows": whole_rows}
    return type(kind.__name__, (*forms, kind), names)
