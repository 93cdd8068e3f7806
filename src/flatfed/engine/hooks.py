"""Checks the values that an algorithm's hooks return, and writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from flatfed.algorithms import Algorithm
from flatfed.algorithms._base import VECTOR_KINDS
from flatfed.algorithms._context import Context, Vectors
from flatfed.algorithms._names import location
from flatfed.errors import FlatFedError


def refuse(hook: Callable, value: Any, expected: str) -> None:
    is_tensor = isinstance(value, Tensor)
    text = f"a tensor {tuple(value.shape)} of {value.dtype}" if is_tensor else " ".join(repr(value)[:80].split())
    raise FlatFedError(f"{location(hook)}: returned {text}; expected: {expected}")


def checked(hook: Callable, value: Any, like: Tensor, name: str = "") -> Tensor:
    """Return the tensor ``value`` of a ``hook``, called ``name`` if in a dict; FlatFedError if it is not ``like``."""
    if not isinstance(value, Tensor) or value.shape != like.shape or value.dtype != like.dtype:
        refuse(hook, value, f"{name and f'as {name!r} '}a tensor {tuple(like.shape)} of {like.dtype}")
    return value


def overrides(algorithm: Algorithm, name: str) -> bool:
    """Return whether ``algorithm`` has a hook ``name`` of its own, also one that only the instance has."""
    return getattr(getattr(algorithm, name), "__func__", None) is not getattr(Algorithm, name)


def check_gradients(algorithm: Algorithm, taken: int) -> None:
    """Refuse an ``algorithm`` that takes other than the declared number of gradients in a local step: its costs."""
    if taken != algorithm.gradients_per_step:
        problem = f"a local step takes {taken} gradients, but the class declares {algorithm.gradients_per_step}"
        raise FlatFedError(f"{location(algorithm.perturbation)}: {problem}; write `gradients_per_step = {taken}`")


def overridden(algorithm: Algorithm, *names: str) -> list[str]:
    """Return the locations of the hooks ``names`` that are not Algorithm's."""
    return [location(getattr(algorithm, name)) for name in names if overrides(algorithm, name)]


def refuse_changed_batch(algorithm: Algorithm) -> None:
    """Refuse a gradient that changed its batch in place: the step's next gradient would be one of other images."""
    places = " or ".join(overridden(algorithm, "transform", "loss")) or "the model"
    raise FlatFedError(f"{places}: changes images, labels or masks in place; expected: new tensors")


def write(hook: Callable, values: Any, vectors: Vectors, kind: str, model: str = "") -> None:
    """Write the ``values`` of a ``hook``, name -> tensor, to the ``vectors`` that an algorithm declares as ``kind``.

    ``model``: name of the model that the hook must return, too.

    :raises FlatFedError: naming file and hook.
    """
    expected = f"a dict of vectors of {kind}, " + (f"with the model {model!r}" if model else "{} if none changes")
    if not isinstance(values, Mapping):
        refuse(hook, values, expected)
    names = [name for name in vectors if name == model or name not in VECTOR_KINDS[kind]]
    for name, value in values.items():
        if name not in names:
            declared = ", ".join(map(repr, names)) or "none"
            problem = f"returned a vector {name!r}, which {kind} does not declare; declared: {declared}"
            raise FlatFedError(f"{location(hook)}: {problem}")
        checked(hook, value, vectors[name], name)
    if model and model not in values:
        refuse(hook, values, expected)
    # A value may be the memory of another vector. A vector that was changed in place needs no copy.
    copies = {name: value.clone() for name, value in values.items() if value is not vectors[name]}
    for name, value in copies.items():
        vectors[name].copy_(value)


def finish(algorithm: Algorithm, w: Tensor, ctx: Context) -> Vectors:
    """Call ``finish``, write the client vectors, and return the uploads, name -> (rows, any)."""
    hook = algorithm.finish
    returned = hook(w, ctx)
    if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], Mapping)):
        refuse(hook, returned, "two dicts, client vectors and uploads, such as {}, {}")
    for name, value in returned[1].items():
        if not isinstance(value, Tensor) or value.ndim != 2 or len(value) != len(w):
            refuse(hook, value, f"as upload {name!r} a tensor ({len(w)}, any)")
    checked(hook, returned[1].get("w", w), w, "w")
    # Copies: an upload may be the memory of a client vector.
    uploads = {"w": w, **{name: value if value is w else value.clone() for name, value in returned[1].items()}}
    write(hook, returned[0], ctx.client, "client_state")
    return uploads
