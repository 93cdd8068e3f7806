r"""``flatfed surface``: the loss around the model of a finished run, or between two.

Writes an .npz: loss (nats) and accuracy at w + x d1 + y d2 on a grid of (x, y), w the run's model. d1 and d2 are
Gaussian, made orthogonal within every filter, then each filter is scaled to the norm of the model's own (Li et al.
2018), so that x = 1 moves every filter by its own length; biases and normalisation layers stay as they are. Models to
be compared take the same --seed: the draw is the same, each scaled to its own filters.

--line-to evaluates the line from the model of RUN_FOLDER (x = 0) to another (x = 1) instead.

At (0, 0), with --images all, stands the run's own evaluated loss. A call that was stopped goes on when it is made
again: finished points wait in a hidden file beside the output. Where memory is short, less is evaluated at a time.

example:
  python -m flatfed surface results/preview/runs/fedsmoo-cifar10/dir0.6-100/fedsmoo/seed1 \
    --dataset resources/digits --partition results/preview/partitions/fedsmoo-cifar10/dir0.6-100/seed1.npz \
    --out surface.npz
"""

from __future__ import annotations

import argparse

from flatfed.commands import analysed_run, arguments, kinds
from flatfed.commands.arguments import argument, required

#: How far a surface goes, in filter norms, and a line beyond either model, in lengths of the way between them.
RANGES = {"surface": 1.0, "line": 0.25}


ARGUMENTS = [
    *analysed_run.ARGUMENTS,
    arguments.partition("RUN_FOLDER's own"),
    argument("--line-to", kinds.folder, "the line to the model of this run instead", metavar="OTHER_RUN"),
    required("--out", kinds.ending(".npz"), "file to write", metavar="NPZ"),
    argument("--grid", kinds.count, "points along a direction, odd; of a line, from model to model", default=51),
    argument("--range", float, "how far to go, in filter norms (1.0); of a line, in its lengths (0.25)", metavar="R"),
    argument("--set", ("train", "test"), "which images", default="train"),
    argument("--images", kinds.images, "how many of them, drawn by the seed, or all", default=4096),
    argument("--seed", kinds.seed, "draws directions and images", default=0),
    *arguments.DEVICE,
]


def run(options: argparse.Namespace) -> None:
    """Make the surface or line that the command line asks for; FlatFedError for what cannot be made."""
    kind, ends = ("line", [options.line_to]) if options.line_to else ("surface", [])
    with analysed_run.analysing(options, options.run, *ends) as device:
        from flatfed.analysis.landscape import sample
        from flatfed.analysis.trained_model import Inputs

        reach = RANGES[kind] if options.range is None else options.range
        settings = sample.SectionSettings(options.grid, reach, options.set, options.images, options.seed)
        inputs = Inputs(options.dataset, options.partition, device, options.threads)
        getattr(sample, kind)(options.run, *ends, inputs, options.out, settings)
