r"""``flatfed hessian``: how flat the minimum is that a finished run ended in.

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
the same numbers on the same machine.

example:
  python -m flatfed hessian results/preview/runs/fedsmoo-cifar10/dir0.6-100/fedsmoo/seed1 \
    --dataset resources/digits --partition results/preview/partitions/fedsmoo-cifar10/dir0.6-100/seed1.npz \
    --out hessian.json
"""

from __future__ import annotations

import argparse
from dataclasses import fields

from flatfed.commands import analysed_run, arguments, kinds
from flatfed.commands.arguments import argument, flag, required

ARGUMENTS = [
    *analysed_run.ARGUMENTS,
    arguments.PARTITION,
    required("--out", kinds.ending(".json"), "file to write", metavar="JSON"),
    argument("--images", kinds.images, "training images, drawn by the seed, or all", default=4096),
    argument("--top", kinds.count, "eigenvalues", default=5),
    argument("--products", kinds.count, "most products spent on eigenvalues", default=600),
    argument("--vectors", kinds.several, "most random vectors for the trace, and for PyHessian's", default=256),
    argument("--parts", kinds.several, "parts of the images, for the error of their choice", default=8),
    argument("--block", kinds.count, "vectors that share the graph of a micro-batch", default=4),
    argument("--micro-batch", kinds.count, "images of one graph: less takes less memory", default=128),
    argument("--residual", kinds.share, "of an eigenvalue, that ends the search", default=0.01),
    argument("--trace-error", kinds.share, "standard error / trace that is enough", default=0.05),
    argument("--precision", ("float32", "float64"), "of all products", default="float32"),
    argument("--seed", kinds.seed, "draws images and vectors", default=0),
    flag("--without-pyhessian", "our own estimate only, in half the time", dest="pyhessian", action="store_false"),
    *arguments.DEVICE,
]


def run(options: argparse.Namespace) -> None:
    """Estimate what the command line asks for; FlatFedError for what cannot be."""
    with analysed_run.analysing(options) as device:
        from flatfed.analysis.hessian.measure import HessianSettings, hessian
        from flatfed.analysis.trained_model import AnalysisInputs

        settings = HessianSettings(**{each.name: getattr(options, each.name) for each in fields(HessianSettings)})
        inputs = AnalysisInputs(options.dataset, options.partition, device, options.threads)
        hessian(options.run, inputs, options.out, settings)
