"""A check of an algorithm's file: a misspelt hook would leave FedAvg's in place."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from types import FunctionType

from flatfed.algorithms._base import Algorithm
from flatfed.errors import ConfigError

SIMILAR = 0.81  # a public name this similar to one of Algorithm's is a typo
DECLARED = {name: value for name, value in vars(Algorithm).items() if name[0] != "_"}
HOOKS = {name: value for name, value in DECLARED.items() if isinstance(value, FunctionType)}


def check(kind: type[Algorithm]) -> None:
    """Refuse public names similar to those of Algorithm, and hooks with other arguments."""
    for owner in kind.__mro__[: kind.__mro__.index(Algorithm)]:
        for name, value in vars(owner).items():
            if name in HOOKS and isinstance(value, FunctionType):
                _check_arguments(name, value)
            elif name in DECLARED and name not in HOOKS and isinstance(value, FunctionType):
                raise ConfigError(f"{location(value)}: a function in place of a value; expected: @property before it")
            elif name[0] != "_" and name not in DECLARED:
                names = DECLARED if isinstance(value, FunctionType | property) else DECLARED.keys() - HOOKS
                for similar in difflib.get_close_matches(name, names, n=1, cutoff=SIMILAR):
                    raise ConfigError(
                        f"{inspect.getfile(owner)}: {owner.__name__}.{name}: did you mean {similar!r}? hooks: "
                        f"{', '.join(sorted(HOOKS))}; begin the name with an underscore if it is your own"
                    )
    for owner in kind.__mro__[kind.__mro__.index(Algorithm) + 1 :]:
        for name in HOOKS.keys() & vars(owner).keys():
            problem = f"{owner.__name__}.{name} is never called, that of Algorithm comes first"
            raise ConfigError(f"{inspect.getfile(kind)}: {kind.__name__}: {problem}; name {owner.__name__} first")


def _check_arguments(name: str, function: FunctionType) -> None:
    """Refuse a hook that does not accept the arguments of Algorithm's, in their order; their names are free."""
    arguments, signature = list(inspect.signature(HOOKS[name]).parameters), inspect.signature(function)
    try:
        bound = signature.bind(*arguments).arguments
    except TypeError:
        bound = {arguments[0]: None}
    if any(parameter in arguments and parameter != value for parameter, value in bound.items()):
        expected = f"{name}({', '.join(arguments)})"
        raise ConfigError(f"{location(function)}{signature}; expected: {expected}, in this order")


def location(function: Callable) -> str:
    """Return file, class and name of a ``function``, for messages."""
    return f"{function.__code__.co_filename}: {function.__qualname__}"
