"""Effect of bfloat16 on SAM's perturbation e, by radius.

    python benchmarks/perturbation.py CIFAR10.npz

Trains ResNet-18 in float32, then compares gradients g in bfloat16 and float32 on new batches. Columns: the norm of e
after rounding; the norm of the change g(w + e) - g(w) over the norm of g(w), in float32; the cosine of the changes in
both precisions and the ratio of their norms. Last two columns: the cosine between g(w + e) and its float32 value, if
(a) both gradients use bfloat16, (b) only the gradient that defines e does.
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np
import torch
from torch import Tensor

from flatfed import models
from flatfed.engine.executors import Batch, Sequential
from flatfed.engine.layout import Layout

RADII = (0.01, 0.02, 0.05, 0.1)
STEPS, BATCHES = 600, 4
BATCH, RATE, DECAY, CLIP = 50, 0.1, 0.001, 10.0


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
    float32_executor, bfloat16_executor = Sequential(model, layout), Sequential(model, layout, None, torch.bfloat16)
    w = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])[None]
    for step in range(STEPS):
        loss, gradient = float32_executor(w, batch())
        gradient.mul_((CLIP / (gradient.norm() + 1e-6)).clamp(max=1.0))
        w -= RATE * (gradient + DECAY * w)
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss.item():.3f}", flush=True)
    print(f"norm of w {w.norm():.2f}, of w - bfloat16(w) {(w - rounded_weights(w)).norm():.4f}")
    print("radius  e rounded  change over g  cosine of change  norm ratio  cosine of gradient    only e bfloat16")
    batches = [batch() for _ in range(BATCHES)]
    for radius in RADII:
        figures = [compare(float32_executor, bfloat16_executor, w, step_batch, radius) for step_batch in batches]
        means = [statistics.fmean(column) for column in zip(*figures, strict=True)]
        print("{:6.2f}  {:9.4f}  {:13.3f}  {:16.3f}  {:10.2f}  {:18.4f}  {:17.4f}".format(radius, *means), flush=True)


def rounded_weights(w: Tensor) -> Tensor:
    return w.to(torch.bfloat16).float()


def compare(
    float32_executor: Sequential, bfloat16_executor: Sequential, w: Tensor, batch: Batch, radius: float
) -> tuple[float, ...]:
    """Return the columns of one batch."""
    g32, g16 = float32_executor(w, batch)[1], bfloat16_executor(w, batch)[1]
    e32, e16 = radius * g32 / g32.norm(), radius * g16 / g16.norm()
    at32, at16 = float32_executor(w + e32, batch)[1], bfloat16_executor(w + e16, batch)[1]
    at32_along16 = float32_executor(w + e16, batch)[1]
    change32, change16 = at32 - g32, at16 - g16
    return (
        (rounded_weights(w + e16) - rounded_weights(w)).norm().item(),
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
