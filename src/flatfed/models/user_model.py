"""A user's model: its first pass, and what is refused before a run trains it."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import is_lazy

from flatfed.errors import ConfigError
from flatfed.models import batch_norm

MASKS = "a list `dropout` of (shape, probability), one for each of the masks of forward(x, masks=None)"
TOLERANCE = 1e-3  # relative to the largest output: float32 rounds differently in other batches


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators of torch on the CPU, NumPy and Python; restore their states afterwards."""
    numpy_state, python_state = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        np.random.seed(seed % (1 << 32))
        random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)


def generator_states() -> dict[str, Any]:
    """Return name -> state of the global generators on the host."""
    _, key, position, *_ = np.random.get_state()
    numpy_state = bytes(key), position
    return {"torch": bytes(torch.get_rng_state().numpy()), "NumPy": numpy_state, "Python": random.getstate()}


def prepare(module: nn.Module, shape: tuple[int, int, int]) -> None:
    """Pass two images of ``shape`` (C, H, W) through ``module``: lazy layers get their tensors.

    Each pass of ``module`` gets copies of its images. A run passes images in channels-last order, and executors replace
    layers by others with results in this order. A model that fails on it, as with ``x.view``, gets contiguous copies,
    and so do its layers.
    """
    module.register_forward_pre_hook(_with_copies)
    channels, height, width = shape
    strides = channels * height * width, 1, width * channels, channels
    images = torch.zeros(2, *shape).as_strided((2, *shape), strides)
    replaced = [layer for layer in module.modules() if isinstance(layer, nn.Conv2d | nn.GroupNorm)]
    hooks = [layer.register_forward_hook(_with_channels_last_output) for layer in replaced]
    module.train()  # a user's method may return nothing
    with batch_norm.running_statistics(module), torch.no_grad():
        try:
            module(images)
            return
        except RuntimeError:
            module.register_forward_pre_hook(_with_contiguous_images)
        finally:
            for hook in hooks:
                hook.remove()
        for layer in module.modules():
            layer.register_forward_hook(_with_contiguous_output)
        module(images)


def _with_copies(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    # The model may change images and masks in place, which other passes of a step also read.
    return tuple([mask.clone() for mask in value] if isinstance(value, list) else value.clone() for value in inputs)


def _with_channels_last_output(_: nn.Module, __: tuple[Any, ...], output: Tensor) -> Tensor:
    return output.contiguous(memory_format=torch.channels_last) if output.dim() == 4 else output


def _with_contiguous_images(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    # Not contiguous(): it returns images of one channel as they are.
    return inputs[0].clone(memory_format=torch.contiguous_format), *inputs[1:]


def _with_contiguous_output(_: nn.Module, __: tuple[Any, ...], output: Any) -> Any:
    return output.contiguous() if isinstance(output, Tensor) else output


def check(build: Callable[[], nn.Module], shape: tuple[int, int, int], classes: int) -> None:
    """Refuse a model that a run would not train as written; ``build`` returns it for images of ``shape`` (C, H, W)."""
    built, states = [], []
    for seed in (1, 1, 2):
        with seeded(seed):
            built.append(build())
            states.append(generator_states())
    refuse_layers(built[0])
    _check_seeds(*built, {name for name, _ in states[1].items() & states[2].items()})
    module, images = built[0], _random_images(2, shape)
    buffers, before = {name: value.clone() for name, value in module.named_buffers()}, generator_states()
    for training in (True, False):
        module.train(training)
        with torch.no_grad():
            size = tuple(module(images).shape)
        if size != (2, classes):
            raise ConfigError(f"its output for 2 images has shape {size}, not (2, {classes})")
    for name, _ in generator_states().items() - before.items():
        raise ConfigError(f"its forward draws from {name}'s global generator; allowed: the masks of {MASKS}")
    carried = batch_norm.buffer_layout(module).names
    for name, value in module.named_buffers():
        if name not in carried and not torch.equal(value, buffers[name]):
            remedy = "allowed are those of torch.nn.BatchNorm, and buffers that stay as built"
            raise ConfigError(f"a pass changes the buffer {name!r}, which clients do not share; {remedy}")


def _check_seeds(first: nn.Module, again: nn.Module, other: nn.Module, reset: set[str]) -> None:
    """Refuse weights that do not follow the seed. ``reset``: generators that a build leaves in the same state."""
    rule = "draw weights from a global generator, which FlatFed seeds with the run's seed, and seed none"
    for name in reset:
        raise ConfigError(f"build seeds {name}'s global generator, so all seeds would have the same draws; {rule}")
    if not all(map(torch.equal, first.state_dict().values(), again.state_dict().values())):
        raise ConfigError(f"two builds with the same seed have different weights; {rule}")
    pairs = [pair for pair in zip(first.parameters(), other.parameters(), strict=True) if pair[0].requires_grad]
    drawn = any(len(parameter.unique()) > 1 for parameter, _ in pairs)
    if drawn and all(torch.equal(*pair) for pair in pairs):
        raise ConfigError(f"two seeds have the same weights; {rule}, or set requires_grad = False for fixed weights")


def mixing_layer(module: nn.Module, shape: tuple[int, int, int]) -> str | None:
    """Return the first layer after which an image's values depend on padding of its batch; None if its logits do not.

    Batch statistics do so, except those of :class:`flatfed.models.batch_norm.UnpaddedBatchNorm`.
    """
    module, generator, images = copy.deepcopy(module), torch.Generator().manual_seed(0), _random_images(7, shape)
    tensors = {
        name: value + torch.randn(value.shape, generator=generator) / 10  # a last layer of zeros would hide it
        for name, value in module.named_parameters()
        if value.requires_grad
    }
    tensors |= dict.fromkeys(batch_norm.image_weights(module), torch.tensor([1 / 3] * 3 + [0.0, 0.0]))
    outputs: list[tuple[str, Tensor]] = []
    for name, layer in module.named_modules():
        if name and not list(layer.children()):

            def note(layer: nn.Module, _: Any, output: Any, name: str = name) -> None:
                if isinstance(output, Tensor) and len(output) == 5:
                    outputs.append((f"layer {name!r} ({type(layer).__name__})", output[0].clone()))

            layer.register_forward_hook(note)
    with torch.no_grad():
        for padding in ((3, 4), (5, 6)):
            outputs.append(("its forward", functional_call(module, tensors, (images[[0, 1, 2, *padding]],))[0]))
    half = len(outputs) // 2
    different = [
        text
        for (text, one), (_, other) in zip(outputs[:half], outputs[half:], strict=True)
        if (one - other).abs().max() > TOLERANCE * one.abs().max()
    ]
    logits_differ = different and different[-1] == outputs[-1][0]
    return different[0] if logits_differ else None


def _random_images(count: int, shape: tuple[int, int, int]) -> Tensor:
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(0))


def refuse_layers(module: nn.Module) -> None:
    """Refuse torch's dropout, SyncBatchNorm, and parameters that cannot train; ConfigError names the layer."""
    model = f"model {type(module).__name__}"
    for prefix, layer in module.named_modules():
        where = f"{model}: layer {prefix!r} ({type(layer).__name__})"
        if isinstance(layer, _DropoutNd) and layer.p:
            raise ConfigError(f"{where} draws from torch's own generator, not from the run's seed; declare {MASKS}")
        if isinstance(layer, nn.SyncBatchNorm):
            raise ConfigError(f"{where} has statistics of several processes; use torch.nn.BatchNorm2d")
    if not isinstance(sites := getattr(module, "dropout", []), list):
        raise ConfigError(f"{model}: its attribute `dropout` is {sites!r}; declare {MASKS}")
    for name, parameter in module.named_parameters():
        if is_lazy(parameter):
            raise ConfigError(f"{model}: a pass gives the lazy parameter {name!r} no shape; use it or remove it")
        if parameter.requires_grad and not parameter.is_floating_point():
            raise ConfigError(f"{model}: parameter {name!r} is {parameter.dtype}; trained ones have real numbers")
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise ConfigError(f"{model}: has no parameter to train; at least one needs requires_grad = True")
