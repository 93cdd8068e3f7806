"""``flatfed hessian``: how flat the minimum is that a finished run ended in."""

from __future__ import annotations

import argparse
from dataclasses import fields

from flatfed.commands import analysed_run, arguments, kinds

DETAIL = """\
Writes JSON (fields: flatfed.runs.curvature): of the Hessian H of the run's training loss, at its final model,
  eigenvalues   the largest, by block Lanczos, each with its residual ||H v - lambda v||; the search ends when every
                residual is below 1 % of its eigenvalue
  trace         by random vectors (Hutchinson), with its standard error; ends when that is below 5 % of the trace
  scaled        both once more of diag(|w|) H diag(|w|), which no scaling of filters can change: H itself is smaller
                where filters are longer, though the model be the same function
  pyhessian     PyHessian's top eigenvalue and trace on the same images, beside ours. A warning is stored and printed
                where the two are further apart than their errors allow.

The loss is the mean cross-entropy on 4,096 training images drawn by the seed (--images all: on all of them), without
augmentation, dropout and weight decay. What another choice of images would have changed is estimated from the
differences between --parts random parts of them, at no further product, and is in the intervals, which are of the
Hessian on all training images. One product H v costs two to three gradients on all the images at hand. Memory is
bounded by --micro-batch, and by 2 top + 4 block vectors of the model's size while eigenvalues are sought; where it runs
out, fewer images and then fewer vectors share a graph.
A call that was stopped goes on when it is made again, from the last estimate that was finished; the same call gives
the same numbers on the same machine."""
EXAMPLE = f"""\
python -m flatfed hessian {arguments.RUN} \\
    --dataset resources/digits --partition {arguments.PARTITION} --out hessian.json"""


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    analysed_run.add(sub)
    sub.add_argument("--out", type=kinds.ending(".json"), required=True, metavar="JSON", help="file to write")
    sub.add_argument(
        "--images",
        type=kinds.images,
        default=4096,
        metavar="N",
        help="training images, drawn by the seed, or all (4096)",
    )
    for option, kind, default, meaning in (
        ("--top", kinds.count, 5, "eigenvalues"),
        ("--products", kinds.count, 600, "most products spent on eigenvalues"),
        ("--vectors", kinds.several, 256, "most random vectors spent on the trace, and as many on PyHessian's"),
        ("--parts", kinds.several, 8, "parts of the images, for the error of their choice"),
        ("--block", kinds.count, 4, "vectors that share the graph of a micro-batch"),
        ("--micro-batch", kinds.count, 128, "images of one graph: less takes less memory"),
    ):
        sub.add_argument(option, type=kind, default=default, metavar="N", help=f"{meaning} (default: {default})")
    sub.add_argument("--residual", type=kinds.share, default=0.01, help="of an eigenvalue, that ends the search (0.01)")
    sub.add_argument(
        "--trace-error", type=kinds.share, default=0.05, help="standard error / trace that is enough (0.05)"
    )
    sub.add_argument("--precision", choices=("float32", "float64"), default="float32", help="(default: float32)")
    sub.add_argument("--seed", type=kinds.seed, default=0, metavar="N", help="draws images and vectors (default: 0)")
    sub.add_argument(
        "--without-pyhessian",
        dest="pyhessian",
        action="store_false",
        help="our own estimate only, in about half the time",
    )
    arguments.add_device(sub)


def run(options: argparse.Namespace) -> None:
    """Estimate what the command line asks for; FlatFedError for what cannot be."""
    with analysed_run.analysing(options, options.run) as device:
        from flatfed.analysis.hessian.measure import HessianSettings, hessian
        from flatfed.analysis.trained_model import Inputs

        settings = HessianSettings(**{each.name: getattr(options, each.name) for each in fields(HessianSettings)})
        inputs = Inputs(options.dataset, options.partition, device, options.threads)
        hessian(options.run, inputs, options.out, settings)
