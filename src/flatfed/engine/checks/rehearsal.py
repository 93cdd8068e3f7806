"""A rehearsal of an algorithm's hooks before the first round, on few clients with artificial gradients.

A hook that returns a value instead of writing it, or writes an unused vector, would silently change the algorithm.
"""

from __future__ import annotations

import copy
import traceback
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatfed.algorithms import Algorithm
from flatfed.algorithms._base import VECTOR_KINDS
from flatfed.algorithms._hooks import file_of, hook_of
from flatfed.engine.checks.trial_batch import changed, random_states
from flatfed.engine.context import Context, no_draws
from flatfed.engine.memory.shortage import is_shortage
from flatfed.engine.weights import Weights
from flatfed.errors import ConfigError, FlatFedError
from flatfed.runs.run_config import RunConfig

CLIENTS = 2  # in the local steps
AGGREGATED = 1 << 30  # largest size in bytes of the aggregated models
KINDS = {kind.removesuffix("_state"): kind for kind in VECTOR_KINDS}  # name in a context -> name in an algorithm
VALUE = "returned {}; expected: {}"


def private_size(algorithm: Algorithm, shape: tuple[int, int, int]) -> int:
    return _call(algorithm, "private_size", shape)


def rehearse(algorithm: Algorithm, config: RunConfig, weights: Weights, private: int, participants: int) -> None:
    """Call every hook of a copy of ``algorithm`` as a round does, on copies of the initial ``weights``.

    ``private``: private coordinates of a client; ``participants`` in the first round.

    :raises FlatFedError: naming file and hook, which fails, returns a wrong value, leaves a vector unchanged that it
        should change, or replaces a vector of the context.
    :raises ConfigError: bfloat16 would lose the perturbation.
    """
    algorithm, initial = copy.deepcopy(algorithm), weights.initial

    def filled(rows: int, names: tuple[str, ...], value: float = 0.0) -> dict[str, Tensor]:
        return {name: initial.new_full((rows, len(initial)), value) for name in names}

    def uniform(draw: int, size: tuple[int, ...]) -> Tensor:
        return torch.from_numpy(np.random.default_rng(draw).random((CLIENTS, *size))).to(initial)

    def gradient(rows: Tensor) -> Tensor:
        return rows + 1

    def mixing(step: int) -> Tensor:
        return initial.new_full((CLIENTS, CLIENTS), 1 / CLIENTS)

    if private:
        images = initial.new_zeros(CLIENTS, *config.dataset.shape)
        _call(algorithm, "transform", images, initial.new_zeros(private))
    models = initial.repeat(CLIENTS, 1)
    server = {"w": initial[None].clone(), **filled(1, algorithm.server_state)}
    steps = initial.new_ones(CLIENTS, 1)
    ctx = Context(
        received=models.clone() if algorithm.decentralised else server["w"],
        server=server,
        client=filled(CLIENTS, algorithm.client_state),
        scratch=filled(CLIENTS, algorithm.filled_scratch(), 1.0) | filled(CLIENTS, algorithm.scratch),
        lr=initial.new_full((), 0.1),
        steps=steps,
        nominal_steps=steps,
        round=0,
        rounds=config.rounds,
        client_count=CLIENTS,
        layout=weights.layout,
        uniform=uniform,
    )
    if algorithm.decentralised:
        ctx_of_all = replace(ctx, received=models, scratch={})
        _call(algorithm, "begin", models, ctx_of_all)
        _call(algorithm, "mix", models, mixing, ctx_of_all)
    w = torch.cat([models, initial.new_zeros(CLIENTS, private)], dim=1)
    _call(algorithm, "start", w, ctx)
    step = replace(ctx, uniform=no_draws)
    e = _call(algorithm, "perturbation", w, gradient, step)
    if e is not None:
        if config.precision == "bfloat16":
            _check_rounding(algorithm, config.model.name, initial[: weights.layout.tensor_size], e)
        _call(algorithm, "update_dual", e, step)
    d = _call(algorithm, "correct", gradient(w), w, step)
    before, version = w.clone(), w._version
    _call(algorithm, "update", w, d, step)
    if w._version == version and torch.equal(before, w):
        _refuse(algorithm, "update", "left w as it was; expected: w changed in place, as by w.sub_(...)")
    uploads = _call(algorithm, "finish", w, ctx)
    if not algorithm.decentralised:
        uploads["w"] = w[:, : len(initial)]
        rows = max(CLIENTS, min(participants, AGGREGATED // initial.nbytes))
        uploads = {name: values[:1].repeat(rows, 1) for name, values in uploads.items()}
        steps = steps[:1].repeat(rows, 1)
        ctx_of_server = replace(ctx, client={}, scratch={}, steps=steps, nominal_steps=steps)
        _call(algorithm, "aggregate", server, uploads, ctx_of_server)
    _call(algorithm, "evaluated", server)
    if not isinstance(algorithm.proximal, int | float):
        _refuse(algorithm, "proximal", VALUE.format(_described(algorithm.proximal), "a number"))


def _check_rounding(algorithm: Algorithm, model: str, weights: Tensor, e: Tensor) -> None:
    """Refuse bfloat16 if it rounds the ``weights`` of ``model`` by more than four times the norm of ``e``.

    Below that, the gradient's change on ResNet-18 keeps a cosine of 0.97 with float32's (benchmarks/perturbation.py).
    """
    radius = float(e.norm(dim=1).max())
    minimum = float((weights - weights.to(torch.bfloat16)).norm()) / 4
    if 0 < radius < minimum:
        raise ConfigError(
            f"algorithm {type(algorithm).__name__}: its perturbation has the norm {radius:.2g}, which is lost where "
            f"bfloat16 rounds the weights of {model}; allowed: precision: float32, or a "
            f"perturbation of norm 0 or from {minimum:.2g} up"
        )


def _call(algorithm: Algorithm, name: str, *arguments: Any) -> Any:
    """Call hook ``name``; refuse wrong values and replaced vectors."""
    contexts = [argument for argument in arguments if isinstance(argument, Context)]
    vectors = [(kind, getattr(ctx, kind), dict(getattr(ctx, kind))) for ctx in contexts for kind in KINDS]
    device = next((argument.device for argument in arguments if isinstance(argument, Tensor)), torch.device("cpu"))
    states = random_states(device)
    try:
        returned = getattr(algorithm, name)(*arguments)
    except Exception as error:
        if isinstance(error, FlatFedError) or is_shortage(error):
            raise
        raise FlatFedError(_failure(algorithm, name, error)) from error
    if generator := changed(states, device):
        remedy = "expected: ctx.uniform, which all algorithms and machines share"
        _refuse(algorithm, name, f"draws from {generator}, whose values depend on earlier draws; {remedy}")
    _check_value(algorithm, name, returned, arguments)
    for kind, values, before in vectors:
        for vector, value in values.items():
            if vector not in before:
                remedy = f"{vector!r} declared in {KINDS[kind]} of the class"
                _refuse(algorithm, name, f"made {kind}[{vector!r}]; expected: {remedy}")
            if value is not before[vector]:
                target = f"{kind}[{vector!r}]"
                _refuse(algorithm, name, f"bound {target} to another tensor; expected: {target}.copy_(...), in place")
    return returned


def _failure(algorithm: Algorithm, name: str, error: Exception) -> str:
    file = file_of(next(base for base in type(algorithm).__mro__ if name in vars(base)))
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    reason = next(iter(str(error).strip().splitlines()), "")
    at = f" failed in line {lines[-1]}" if lines else " failed"
    return f"{hook_of(type(algorithm), name)}{at}: {type(error).__name__}: {reason}"


def _refuse(algorithm: Algorithm, name: str, reason: str) -> None:
    raise FlatFedError(f"{hook_of(type(algorithm), name)} {reason}")


def _check_value(algorithm: Algorithm, name: str, returned: Any, arguments: tuple[Any, ...]) -> None:
    if name in ("correct", "transform") or (name == "perturbation" and returned is not None):
        fits = isinstance(returned, Tensor) and _form(returned) == _form(arguments[0])
        text = _described(arguments[0]) + (" or None" if name == "perturbation" else "")
        vectors = [vector for kind in KINDS if name == "correct" for vector in getattr(arguments[-1], kind).values()]
        if any(returned is vector for vector in vectors):
            fits, text = False, "a new tensor, because the engine clips it in place"
    elif name == "finish":
        fits = _named(returned) and all(v.ndim == 2 and len(v) == CLIENTS for v in returned.values())
        fits = fits and "w" not in returned
        text = f"a dict of names and tensors of shape ({CLIENTS}, any), without 'w', {{}} if only the model is sent"
    elif name == "evaluated":
        w = arguments[0]["w"]
        fits = _named(returned) and len(returned) > 0 and all(_form(v) == _form(w) for v in returned.values())
        text = f"a dict of names and models, at least one, each {_described(w)}"
    elif name == "private_size":
        fits = isinstance(returned, int) and not isinstance(returned, bool) and returned >= 0
        text = "a whole number from 0 up"
    else:
        fits, text = returned is None, "nothing: hooks change vectors in place"
    if not fits:
        _refuse(algorithm, name, VALUE.format(_described(returned), text))


def _named(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(k, str) and isinstance(v, Tensor) for k, v in value.items())


def _form(value: Tensor) -> tuple[torch.Size, torch.dtype, torch.device]:
    return value.shape, value.dtype, value.device


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}, {str(value.dtype).removeprefix('torch.')} on {value.device}"
    if isinstance(value, dict):
        return f"a dict ({', '.join(f'{name!r}: {_described(entry)}' for name, entry in value.items()) or 'empty'})"
    return repr(value)[:80] if value is None or isinstance(value, int | float | str) else type(value).__name__
