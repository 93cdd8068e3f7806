r"""``flatfed surface``: the loss around the model of a finished run.

Writes an .npz: loss (nats) and accuracy at w + x d1 + y d2 on a grid of (x, y), w the run's model. d1 and d2 are
Gaussian, made orthogonal within every filter, then each filter is scaled to the norm of the model's own (Li et al.
2018), so that x = 1 moves every filter by its own length; biases and normalisation layers stay as they are. Models to
be compared take the same --seed: the draw is the same, each scaled to its own filters.

At (0, 0), with --images all, stands the run's own evaluated loss. A call that was stopped goes on when it is made
again: finished points wait in a hidden file beside the output.

example:
  python -m flatfed surface results/preview/runs/fedsmoo-cifar10/dir0.6-100/fedsmoo/seed1 \
    --dataset resources/digits --partition results/preview/partitions/fedsmoo-cifar10/dir0.6-100/seed1.npz \
    --out surface.npz
"""

from __future__ import annotations

import argparse

from flatfed.commands import analysed_run, arguments, kinds
from flatfed.commands.arguments import argument, required

ARGUMENTS = [
    *analysed_run.ARGUMENTS,
    arguments.PARTITION,
    required("--out", kinds.ending(".npz"), "file to write", metavar="NPZ"),
    argument("--grid", kinds.count, "points along a direction, odd", default=51),
    argument("--range", float, "how far to go on both sides, in filter norms", default=1.0),
    argument("--set", ("train", "test"), "which images", default="train"),
    argument("--images", kinds.images, "how many of them, drawn by the seed, or all", default=4096),
    argument("--seed", kinds.seed, "draws directions and images", default=0),
    *arguments.DEVICE,
]


def run(options: argparse.Namespace) -> None:
    """Make the surface that the command line asks for; FlatFedError for what cannot be made."""
    with analysed_run.analysing(options) as device:
        from flatfed.analysis.landscape import loss_surface
        from flatfed.analysis.trained_model import AnalysisInputs

        settings = loss_surface.SurfaceSettings(options.grid, options.range, options.set, options.images, options.seed)
        inputs = AnalysisInputs(options.dataset, options.partition, device, options.threads)
        loss_surface.surface(options.run, inputs, options.out, settings)
