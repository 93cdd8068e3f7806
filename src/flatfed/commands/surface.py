"""``flatfed surface``: the loss around the model of a finished run, or between two."""

from __future__ import annotations

import argparse

from flatfed.commands import analysed_run, arguments, kinds

#: How far a surface goes, in filter norms, and a line beyond either model, in lengths of the way between them.
RANGES = {"surface": 1.0, "line": 0.25}

DETAIL = """\
Writes an .npz: loss (nats) and accuracy at w + x d1 + y d2 on a grid of (x, y), w the run's model. d1 and d2 are
Gaussian, made orthogonal within every filter, then each filter is scaled to the norm of the model's own (Li et al.
2018), so that x = 1 moves every filter by its own length; biases and normalisation layers stay as they are. Models to
be compared take the same --seed: the draw is the same, each scaled to its own filters.

--line-to evaluates the line from the model of RUN_FOLDER (x = 0) to another (x = 1) instead.

At (0, 0), with --images all, stands the run's own evaluated loss. A call that was stopped goes on when it is made
again: finished points wait in a hidden file beside the output. Where memory is short, less is evaluated at a time."""
EXAMPLE = f"""\
python -m flatfed surface {arguments.RUN} \\
    --dataset resources/digits --partition {arguments.PARTITION} --out surface.npz"""


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    analysed_run.add(sub, "RUN_FOLDER's own")
    sub.add_argument(
        "--line-to", type=kinds.folder, metavar="OTHER_RUN", help="the line to the model of this run instead"
    )
    sub.add_argument("--out", type=kinds.ending(".npz"), required=True, metavar="NPZ", help="file to write")
    sub.add_argument(
        "--grid",
        type=kinds.count,
        default=51,
        metavar="N",
        help="points along a direction, odd (default: 51); of a line, points from model to model",
    )
    sub.add_argument(
        "--range",
        type=float,
        metavar="R",
        help="how far to go on both sides, in filter norms (default: 1.0); of a line, how far beyond both models, in "
        "lengths of the way between them (default: 0.25)",
    )
    sub.add_argument("--set", choices=("train", "test"), default="train", help="which images (default: train)")
    sub.add_argument(
        "--images",
        type=kinds.images,
        default=4096,
        metavar="N",
        help="how many of them, drawn by the seed (default: 4096)",
    )
    sub.add_argument("--seed", type=kinds.seed, default=0, metavar="N", help="draws directions and images (default: 0)")
    arguments.add_device(sub)


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
