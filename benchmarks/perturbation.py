"""Effect of bfloat16 and of TF32 on SAM's perturbation e, by radius.

    python benchmarks/perturbation.py CIFAR10.npz

Trains ResNet-18 in float32, then compares gradients g in float32 and in a low precision on new batches. Columns: the
norm of e after rounding; the norm of the change g(w + e) - g(w) over the norm of g(w), in float32; the cosine of the
changes in both precisions and the ratio of their norms. Last two columns: the cosine between g(w + e) and its float32
value, if (a) both gradients use the low precision, (b) only the gradient that defines e does. A CPU emulates TF32.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from flatfed import models
from flatfed.algorithms._layout import Layout
from flatfed.engine.executors import Batch, Sequential

RADII = (0.01, 0.02, 0.05, 0.1)
STEPS, BATCHES = 600, 4
BATCH, RATE, DECAY, CLIP = 50, 0.1, 0.001, 10.0

Gradient = Callable[[Tensor, Batch], tuple[Tensor, Tensor]]
Rounding = Callable[[Tensor], Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("npz")
    torch.manual_seed(1)
    torch.set_num_threads(1)
    with np.load(parser.parse_args().npz) as arrays:
        images, labels = arrays["train_images"], arrays["train_labels"]
    rng = np.random.default_rng(1)

    def batch() -> Batch:
        chosen = rng.integers(len(images), size=BATCH)
        pixels = torch.from_numpy(images[chosen]).permute(0, 3, 1, 2).float().div(255).sub(0.473).div(0.25)
        weights = torch.full((1, BATCH), 1 / BATCH)
        return Batch(pixels[None], torch.from_numpy(labels[chosen]).long()[None], weights, [])

    model = models.build("resnet18_gn", (3, 32, 32), 10, {"stem": "imagenet", "groups": 2})
    layout = Layout.of(model)
    executor = Sequential(model, layout)
    low: dict[str, tuple[Gradient, Rounding]] = {
        "bfloat16": (Sequential(model, layout, None, torch.bfloat16), to_bfloat16),
        "TF32": (lambda w, batch: in_tf32(executor, w, batch), to_tf32),
    }
    w = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])[None]
    for step in range(STEPS):
        loss, gradient = executor(w, batch())
        gradient.mul_((CLIP / (gradient.norm() + 1e-6)).clamp(max=1.0))
        w -= RATE * (gradient + DECAY * w)
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss.item():.3f}", flush=True)
    batches = [batch() for _ in range(BATCHES)]
    for name, (gradients, rounded) in low.items():
        print(f"{name}: norm of w {w.norm():.2f}, of its rounding {(w - rounded(w)).norm():.4f}")
        print("radius  e rounded  change over g  cosine of change  norm ratio  cosine of gradient         only e low")
        for radius in RADII:
            figures = [compare(executor, gradients, rounded, w, step_batch, radius) for step_batch in batches]
            means = [statistics.fmean(column) for column in zip(*figures, strict=True)]
            line = "{:6.2f}  {:9.4f}  {:13.3f}  {:16.3f}  {:10.2f}  {:18.4f}  {:17.4f}"
            print(line.format(radius, *means), flush=True)


def to_bfloat16(values: Tensor) -> Tensor:
    return values.to(torch.bfloat16).float()


def to_tf32(values: Tensor) -> Tensor:
    """Round to ten bits of the mantissa, ties to even."""
    bits = values.view(torch.int32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


class RoundsFactors(TorchDispatchMode):
    """Rounds the factors of convolutions and products to TF32."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(part in function.name() for part in ("convolution", "mm")):
            args = [to_tf32(a) if isinstance(a, Tensor) and a.dim() > 1 else a for a in args]
        return function(*args, **(kwargs or {}))


def in_tf32(executor: Sequential, w: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    with RoundsFactors():
        return executor(w, batch)


def compare(
    executor: Sequential, low: Gradient, rounded: Rounding, w: Tensor, batch: Batch, radius: float
) -> tuple[float, ...]:
    """Return the columns of one batch."""
    g32, g16 = executor(w, batch)[1], low(w, batch)[1]
    e32, e16 = radius * g32 / g32.norm(), radius * g16 / g16.norm()
    at32, at16 = executor(w + e32, batch)[1], low(w + e16, batch)[1]
    at32_along16 = executor(w + e16, batch)[1]
    change32, change16 = at32 - g32, at16 - g16
    return (
        (rounded(w + e16) - rounded(w)).norm().item(),
        (change32.norm() / g32.norm()).item(),
        cosine(change16, change32),
        (change16.norm() / change32.norm()).item(),
        cosine(at16, at32),
        cosine(at32_along16, at32),
    )


def cosine(a: Tensor, b: Tensor) -> float:
    a, b = a.double(), b.double()
    return ((a * b).sum() / (a.norm() * b.norm())).item()


if __name__ == "__main__":
    main()
