r"""``flatfed surface``.

Writes an .npz: loss (nats) and accuracy at w + x d1 + y d2 on a grid of (x, y), where w is the run's final model. The
directions d1 and d2 are Gaussian, orthogonal within each filter, and scaled to the norm of the model's filter (Li et
al. 2018). Biases and normalisation layers stay fixed. Use the same --seed for all models of a comparison.

With --images all, (0, 0) has the evaluated loss of the run.

example:
  flatfed surface results/preview/runs/fedsmoo-cifar10/dir0.6-100/fedsmoo/seed1 \
    --dataset resources/digits --partition results/preview/partitions/fedsmoo-cifar10/dir0.6-100/seed1.npz \
    --out surface.npz
"""

from __future__ import annotations

import argparse

from flatfed.commands import arguments
from flatfed.commands.arguments import argument, required

ARGUMENTS = [
    *arguments.ANALYSIS,
    required("--out", arguments.ending(".npz"), "file to write", metavar="NPZ"),
    argument("--grid", arguments.count, "points per direction, odd", default=51),
    argument("--range", float, "largest |x| and |y|, in filter norms", default=1.0),
    argument("--set", ("train", "test"), "the images", default="train"),
    argument("--images", arguments.images, "number of random images, or all", default=4096),
    argument("--seed", arguments.seed, "draws directions and images", default=0),
]


def run(options: argparse.Namespace) -> None:
    """Write the surface."""
    with arguments.analysis_inputs(options) as inputs:
        from flatfed.analysis import loss_surface

        settings = loss_surface.SurfaceSettings(options.grid, options.range, options.set, options.images, options.seed)
        loss_surface.surface(options.run, inputs, options.out, settings)
