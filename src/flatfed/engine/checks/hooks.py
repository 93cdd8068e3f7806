"""The first call of every hook of a run, looked at: later ones are the algorithm's own, with nothing in between.

A hook that returns what it should have written, or writes where nobody reads, trains something else in silence. What it
returned, and whether vectors are still the engine's own, can be seen without a look at a number: no device is waited
for, and where steps are recorded, the first call comes before the recording.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from flatfed.algorithms import Algorithm
from flatfed.algorithms._base import STATE
from flatfed.algorithms._hooks import file_of, hook_of
from flatfed.engine.context import Context
from flatfed.engine.memory.shortage import is_shortage
from flatfed.errors import FlatFedError

HOOKS = (
    *("start", "perturbation", "correct", "update", "finish", "aggregate"),
    *("begin", "mix", "private_size", "evaluated"),
)
KINDS = {kind.removesuffix("_state"): kind for kind in STATE}  # name in a context -> name in an algorithm
VALUE = "returned {}; wanted: {}"


def watch(algorithm: Algorithm) -> None:
    """Put a :class:`FirstCall` before each of the hooks of ``algorithm``."""
    for name in HOOKS:
        setattr(algorithm, name, FirstCall(algorithm, name))


def check_transform(algorithm: Algorithm, initial: Tensor, shape: tuple[int, int, int], private: int) -> None:
    """Have two black images of ``shape`` (C, H, W) transformed by ``private`` coordinates, where ``initial`` lies.

    Executors hold on to the hook, and call it where an error of its own looks like one of the model.
    """
    FirstCall(algorithm, "transform")(initial.new_zeros(2, *shape), initial.new_zeros(private))


def check_evaluated(algorithm: Algorithm, server: dict[str, Tensor]) -> None:
    """Have the models of ``server`` named as after the last round, which is late for a mistake."""
    algorithm.evaluated(server)
    if not isinstance(algorithm.proximal, int | float):
        where = hook_of(type(algorithm), "proximal")
        raise FlatFedError(f"{where} {VALUE.format(_described(algorithm.proximal), 'a number')}")


class FirstCall:
    """Stands in the place of hook ``name`` until it has been called once and found to do what it promises.

    :raises FlatFedError: naming file and hook, where it returns what it should not, leaves as it was what it should
        change, binds a vector of the context anew, or fails by itself. Errors of the engine, which a hook may call,
        and memory that runs out stay what they are.
    """

    def __init__(self, algorithm: Algorithm, name: str):
        self.algorithm, self.name = algorithm, name
        self.hook, self.own = getattr(algorithm, name), vars(algorithm).get(name)
        self.seen = False

    def __call__(self, *given: Any) -> Any:
        if self.seen:
            return self.hook(*given)
        vectors = [(kind, values, dict(values)) for kind, values in _vectors(given)]
        model = (given[0]._version, given[0][:1].clone()) if self.name == "update" else None
        try:
            returned = self.hook(*given)
        except Exception as error:
            self._explain(error)
            raise
        self._check_value(returned, given)
        for kind, values, before in vectors:
            self._check_bound(kind, values, before)
        if model is not None and given[0]._version == model[0] and torch.equal(given[0][:1], model[1]):
            self._refuse("left w as it was; wanted: w changed in place, as by w.sub_(...)")
        self._withdraw()
        return returned

    def _withdraw(self) -> None:
        self.seen = True
        if vars(self.algorithm).get(self.name) is not self:
            return
        if self.own is None:
            delattr(self.algorithm, self.name)
        else:
            setattr(self.algorithm, self.name, self.own)

    def _refuse(self, what: str) -> None:
        raise FlatFedError(f"{hook_of(type(self.algorithm), self.name)} {what}")

    def _explain(self, error: Exception) -> None:
        """Say of an error in the algorithm's own file where it is, and in which hook."""
        if isinstance(error, FlatFedError) or is_shortage(error):
            return
        lines = list(_lines(error.__traceback__.tb_next))
        if any(module.startswith("flatfed.engine.") for module, _, _ in lines):
            return
        owner = next(base for base in type(self.algorithm).__mro__ if self.name in vars(base))
        own = [line for _, file, line in lines if file == file_of(owner)]
        reason = next(iter(str(error).strip().splitlines()), "")
        at = f" failed in line {own[-1]}" if own else " failed"
        raise FlatFedError(
            f"{hook_of(type(self.algorithm), self.name)}{at}: {type(error).__name__}: {reason}"
        ) from error

    def _check_value(self, returned: Any, given: tuple[Any, ...]) -> None:
        """Refuse a returned value that is not what the engine goes on with."""
        if self.name in ("correct", "transform") or (self.name == "perturbation" and returned is not None):
            wanted = given[0]
            fits = isinstance(returned, Tensor) and _form(returned) == _form(wanted)
            text = _described(wanted) + (" or None" if self.name == "perturbation" else "")
        elif self.name == "finish":
            rows = len(given[0])
            fits = _named(returned) and all(v.ndim == 2 and len(v) == rows for v in returned.values())
            text = f"a dict of names and tensors of shape ({rows}, any), {{}} where nothing is sent beside the model"
        elif self.name == "evaluated":
            w = given[0]["w"]
            fits = _named(returned) and len(returned) > 0 and all(_form(v) == _form(w) for v in returned.values())
            text = f"a dict of names and models, at least one, each {_described(w)}"
        elif self.name == "private_size":
            fits = isinstance(returned, int) and not isinstance(returned, bool) and returned >= 0
            text = "a whole number from 0 up"
        else:
            fits, text = returned is None, "nothing, what it changes it changes in place"
        if not fits:
            self._refuse(VALUE.format(_described(returned), text))

    def _check_bound(self, kind: str, values: dict[str, Tensor], before: dict[str, Tensor]) -> None:
        """Refuse vectors that were put in the place of the engine's own, which is what goes on, or beside them."""
        for name, value in values.items():
            if name not in before:
                self._refuse(f"made {kind}[{name!r}]; wanted: {name!r} declared in {KINDS[kind]} of the class")
            if value is not before[name]:
                self._refuse(f"bound {kind}[{name!r}] to another tensor; wanted: {kind}[{name!r}].copy_(...), in place")


def _vectors(given: tuple[Any, ...]) -> list[tuple[str, dict[str, Tensor]]]:
    """Return (kind, vectors by name) of the contexts among a hook's arguments."""
    contexts = [argument for argument in given if isinstance(argument, Context)]
    return [(kind, getattr(ctx, kind)) for ctx in contexts for kind in KINDS]


def _lines(trace: TracebackType | None) -> Iterator[tuple[str, str, int]]:
    """Yield (module, file, line) of the calls of ``trace``, the outermost first."""
    while trace is not None:
        frame = trace.tb_frame
        yield frame.f_globals.get("__name__", ""), frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next


def _named(value: Any) -> bool:
    """Return whether ``value`` is a dictionary of tensors by name."""
    return isinstance(value, dict) and all(isinstance(k, str) and isinstance(v, Tensor) for k, v in value.items())


def _form(value: Tensor) -> tuple[torch.Size, torch.dtype, torch.device]:
    return value.shape, value.dtype, value.device


def _described(value: Any) -> str:
    """Describe a value in few words."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}, {str(value.dtype).removeprefix('torch.')} on {value.device}"
    if isinstance(value, dict):
        return f"a dict ({', '.join(f'{name!r}: {_described(each)}' for name, each in value.items()) or 'empty'})"
    return repr(value)[:80] if value is None or isinstance(value, int | float | str) else type(value).__name__
