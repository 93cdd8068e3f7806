"""Checks of an algorithm's file by names and parameters: a misspelt hook would leave FedAvg's in place."""

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

SIMILAR = 0.8  # an unused name this similar to a hook's is a typo

DECLARED = {name: value for name, value in vars(Algorithm).items() if not name.startswith("_")}
CALLED = (FunctionType, staticmethod, classmethod)
HOOKS = tuple(sorted(name for name, value in DECLARED.items() if isinstance(value, FunctionType)))


def check(kind: type[Algorithm]) -> None:
    """Refuse an unused public name similar to a hook's, and a hook with wrong parameters."""
    reads = list(_reads(kind))
    after = kind.__mro__.index(Algorithm)
    for position, owner in enumerate(kind.__mro__):
        for name, value in vars(owner).items() if owner not in (Algorithm, object) else ():
            where = f"{file_of(owner)}: {owner.__name__}.{name}"
            if name in DECLARED and position > after:
                raise ConfigError(
                    f"{where} is never called: in {kind.__name__} that of Algorithm comes first; expected: "
                    f"{owner.__name__} before the other bases of the class"
                )
            if name in DECLARED:
                _check_fit(name, value, where)
            elif not name.startswith("_") and not any(name in names for reader, names in reads if reader != name):
                _check_name(name, value, where)


def file_of(owner: type) -> str:
    return getattr(sys.modules.get(owner.__module__), "__file__", None) or owner.__module__


def hook_of(kind: type[Algorithm], name: str) -> str:
    """Return file, class and name of a hook, for messages."""
    owner = next(base for base in kind.__mro__ if name in vars(base))
    return f"{file_of(owner)}: {owner.__name__}.{name}"


def _check_name(name: str, value: Any, where: str) -> None:
    """Refuse an unused name similar to one of Algorithm's; a value only if Algorithm's is a value too."""
    function = isinstance(value, (*CALLED, property, cached_property))
    candidates = [hook for hook, base in DECLARED.items() if function or not isinstance(base, CALLED)]
    if nearest := difflib.get_close_matches(name, candidates, n=1, cutoff=SIMILAR):
        raise ConfigError(
            f"{where}: nothing {'calls' if function else 'reads'} it; did you mean {nearest[0]!r}? hooks: "
            f"{', '.join(HOOKS)}; begin the name with an underscore if only other files use it"
        )


def _check_fit(name: str, value: Any, where: str) -> None:
    """Refuse a value that cannot replace Algorithm's ``name``."""
    base = DECLARED[name]
    if not isinstance(base, CALLED):
        if isinstance(value, FunctionType):
            raise ConfigError(f"{where} is read, not called; expected: a value, or a function under @property")
        return
    expected = list(inspect.signature(getattr(base, "__func__", base)).parameters.values())[1:]
    if not isinstance(value, CALLED):
        if isinstance(value, property | cached_property) or not (callable(value) or hasattr(value, "__get__")):
            form = "a property" if hasattr(value, "__get__") else repr(value)
            raise ConfigError(f"{where} is {form}; expected: a function {name}{_written(expected)}")
        return
    signature = inspect.signature(getattr(value, "__func__", value))
    parameters = list(signature.parameters.values())[0 if isinstance(value, staticmethod) else 1 :]
    if not _accepts(signature.replace(parameters=parameters), [parameter.name for parameter in expected]):
        raise ConfigError(f"{where}{_written(parameters)}; expected: {name}{_written(expected)}, in this order")


def _accepts(signature: inspect.Signature, names: list[str]) -> bool:
    """Return whether positional arguments called ``names`` bind, each to the parameter of its name if there is one."""
    try:
        bound = signature.bind(*names).arguments
    except TypeError:
        return False
    return all(name not in names or name == value for name, value in bound.items())


def _written(parameters: list[inspect.Parameter]) -> str:
    """Return ``parameters`` as in a method's definition, without types."""
    bare = [str(parameter.replace(annotation=inspect.Parameter.empty)) for parameter in parameters]
    return f"({', '.join(['self', *bare])})"


def _reads(kind: type) -> Iterator[tuple[str, set[str]]]:
    """Yield (name, all names that it reads) of every function of ``kind`` and its bases."""
    for base in kind.__mro__:
        for name, value in vars(base).items():
            parts = (value.fget, value.fset) if isinstance(value, property) else (value,)
            for part in parts:
                function = getattr(part, "__func__", None) or getattr(part, "func", None) or part
                code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
                if code is not None:
                    yield name, set(_names(code))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
