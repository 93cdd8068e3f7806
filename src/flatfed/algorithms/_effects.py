"""Declarations of an algorithm's file without effect: a base under another name, parameters that no method reads."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from pathlib import Path

from flatfed.algorithms._base import VECTOR_KINDS, Algorithm
from flatfed.algorithms._parameters import Choice, Number, Whole

#: Attributes that change no number of a training.
NEUTRAL = {*VECTOR_KINDS, "version", "communication", "counted", "whole_rows", "own_momentum"}


def remarks(kind: type[Algorithm], imported: Iterable[Path]) -> list[str]:
    """Return a clause per declaration of ``kind`` without effect; ``imported``: further files that its methods use."""
    base = kind
    while len(base.__bases__) == 1 and not _adds(base):
        base = base.__bases__[0]
    name, stem = base.__name__, base.__module__.rpartition(".")[2]
    texts = [f"no method reads its parameter {parameter!r}" for parameter in _unread(kind, imported)]
    # Other bases are building blocks in a file of the user.
    if base is not kind and (base is Algorithm or name.lower() == stem.replace("_", "")):
        name = "FedAvg" if base is Algorithm else name
        texts.insert(0, f"overrides no hook, so with equal parameters it is {name} under another name")
    return texts


def _adds(kind: type) -> bool:
    """Return whether the body of ``kind`` has more than parameters and neutral attributes."""
    others = ((name, value) for name, value in vars(kind).items() if not isinstance(value, Number | Whole | Choice))
    return any(callable(value) if name.startswith("__") else name not in NEUTRAL for name, value in others)


def _unread(kind: type[Algorithm], imported: Iterable[Path]) -> list[str]:
    """Return the parameters of ``kind`` that neither the engine nor a file of the class reads."""
    modules = {base.__module__ for base in kind.__mro__} - {Algorithm.__module__, object.__module__}
    files = {Path(sys.modules[module].__file__) for module in modules}.union(imported)
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_bytes()))]
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
    read |= {node.value for node in nodes if isinstance(node, ast.Constant)}  # as in getattr
    # The values of public code select classes.
    read |= {name for name, value in kind.parameters().items() if getattr(value, "public_code", ())}
    # Code that calls `parameters` may read any of them.
    return [name for name in kind.parameters() if not {name, "parameters"} & read and not hasattr(Algorithm, name)]
