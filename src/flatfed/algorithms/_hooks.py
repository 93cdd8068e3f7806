"""Slips in an algorithm's file that would be silent: a hook that nobody calls leaves FedAvg's own in its place.

They are found when the file is loaded, from names and parameters alone. A rehearsal before the first round checks what
hooks return and change (:mod:`flatfed.engine.checks.rehearsal`).
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Iterator
from functools import cached_property
from types import CodeType, FunctionType
from typing import Any

from flatfed.algorithms._base import Algorithm
from flatfed.errors import ConfigError

SIMILAR = 0.8  # to a hook's name: a name that nothing uses is then a slip

DECLARED = {name: value for name, value in vars(Algorithm).items() if not name.startswith("_")}
CALLED = (FunctionType, staticmethod, classmethod)
HOOKS = tuple(sorted(name for name, value in DECLARED.items() if isinstance(value, FunctionType)))


def check(kind: type[Algorithm]) -> None:
    """Refuse a public name that nothing uses and that is nearly a hook's, and a hook that cannot be called as one.

    :raises ConfigError: naming the file, the class, what is wrong, and the name or the parameters that are wanted.
    """
    reads = list(_reads(kind))
    after = kind.__mro__.index(Algorithm)
    for place, owner in enumerate(kind.__mro__):
        for name, value in vars(owner).items() if owner not in (Algorithm, object) else ():
            where = f"{file_of(owner)}: {owner.__name__}.{name}"
            if name in DECLARED and place > after:
                raise ConfigError(
                    f"{where} is never called: in {kind.__name__} that of Algorithm comes first; wanted: "
                    f"{owner.__name__} before the other bases of the class"
                )
            if name in DECLARED:
                _check_fit(name, value, where)
            elif not name.startswith("_") and not any(name in names for other, names in reads if other != name):
                _check_name(name, value, where)


def file_of(owner: type) -> str:
    """Return the file that class ``owner`` is defined in, its module's name where there is none."""
    return getattr(sys.modules.get(owner.__module__), "__file__", None) or owner.__module__


def hook_of(kind: type[Algorithm], name: str) -> str:
    """Return file, class and name of the hook ``name`` as ``kind`` has it, for messages."""
    owner = next(base for base in kind.__mro__ if name in vars(base))
    return f"{file_of(owner)}: {owner.__name__}.{name}"


def _check_name(name: str, value: Any, where: str) -> None:
    """Refuse a name that nothing uses and that is nearly one of Algorithm's: of a function any, else of a value."""
    function = isinstance(value, (*CALLED, property, cached_property))
    known = [other for other, base in DECLARED.items() if function or not isinstance(base, CALLED)]
    if nearest := difflib.get_close_matches(name, known, n=1, cutoff=SIMILAR):
        raise ConfigError(
            f"{where}: nothing {'calls' if function else 'reads'} it; did you mean {nearest[0]!r}? hooks: "
            f"{', '.join(HOOKS)}; what only other files use has another name, or one that begins with an underscore"
        )


def _check_fit(name: str, value: Any, where: str) -> None:
    """Refuse what cannot stand in the place of Algorithm's ``name``."""
    base = DECLARED[name]
    if not isinstance(base, CALLED):
        if isinstance(value, FunctionType):
            raise ConfigError(f"{where} is read, not called; wanted: a value, or a function under @property")
        return
    wanted = list(inspect.signature(getattr(base, "__func__", base)).parameters.values())[1:]
    if not isinstance(value, CALLED):
        if isinstance(value, property | cached_property) or not (callable(value) or hasattr(value, "__get__")):
            said = "a property" if hasattr(value, "__get__") else repr(value)
            raise ConfigError(f"{where} is {said}; wanted: a function {name}{_written(wanted)}")
        return
    given = inspect.signature(getattr(value, "__func__", value))
    own = list(given.parameters.values())[0 if isinstance(value, staticmethod) else 1 :]
    if not _takes(given.replace(parameters=own), [parameter.name for parameter in wanted]):
        raise ConfigError(f"{where}{_written(own)}; wanted: {name}{_written(wanted)}, in this order")


def _takes(given: inspect.Signature, wanted: list[str]) -> bool:
    """Return whether arguments called ``wanted`` can be given by position, and none of them ends in another's place."""
    try:
        bound = given.bind(*wanted).arguments
    except TypeError:
        return False
    return all(name not in wanted or name == value for name, value in bound.items())


def _written(parameters: list[inspect.Parameter]) -> str:
    """Return ``parameters`` as they stand in a method's definition, without their types."""
    bare = [str(parameter.replace(annotation=inspect.Parameter.empty)) for parameter in parameters]
    return f"({', '.join(['self', *bare])})"


def _reads(kind: type) -> Iterator[tuple[str, set[str]]]:
    """Yield (its own name, all names that it reads) of every function of ``kind`` and its bases."""
    for base in kind.__mro__:
        for name, value in vars(base).items():
            parts = (value.fget, value.fset) if isinstance(value, property) else (value,)
            for part in parts:
                function = getattr(part, "__func__", None) or getattr(part, "func", None) or part
                code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
                if code is not None:
                    yield name, set(_names(code))


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes in ``code`` and in the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
