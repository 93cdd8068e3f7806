r"""``flatfed hessian``.

Estimates how flat the minimum of a finished run is. Writes JSON (fields: flatfed.runs.curvature) about the Hessian H
of the training loss at the final model:
  eigenvalues   the largest, by ARPACK (Lanczos), with residuals ||H v - lambda v||; ends when all are below --residual
  trace         by Hutchinson's random vectors, with standard error; ends when it is below --trace-error
  scaled        both for diag(|w|) H diag(|w|), which does not change when filters are rescaled
  pyhessian     PyHessian's top eigenvalue and trace on the same images

The loss is the mean cross-entropy on --images training images without augmentation, dropout and weight decay. Products
have the run's precision. A product H v costs two to three gradients.

example:
  flatfed hessian results/preview/runs/fedsmoo-cifar10/dir0.6-100/fedsmoo/seed1 \
    --dataset resources/digits --partition results/preview/partitions/fedsmoo-cifar10/dir0.6-100/seed1.npz \
    --out hessian.json
"""

from __future__ import annotations

import argparse
from dataclasses import fields

from flatfed.commands import arguments
from flatfed.commands.arguments import argument, flag, required
from flatfed.runs.curvature import DEFAULTS

ARGUMENTS = [
    *arguments.ANALYSIS,
    required("--out", arguments.ending(".json"), "file to write", metavar="JSON"),
    argument("--images", arguments.images, "random training images, or all", default=4096),
    argument("--top", arguments.count, "eigenvalues", default=5),
    argument("--products", arguments.count, "limit of products for the eigenvalues", default=DEFAULTS["products"]),
    argument("--vectors", arguments.several, "limit of random vectors for each trace", default=256),
    argument("--block", arguments.count, "random vectors per graph", default=4),
    argument("--micro-batch", arguments.count, "images per graph", default=128),
    argument("--residual", arguments.share, "largest residual / eigenvalue", default=DEFAULTS["residual"]),
    argument("--trace-error", arguments.share, "largest standard error / trace", default=DEFAULTS["trace_error"]),
    argument("--seed", arguments.seed, "draws images and vectors", default=0),
    flag("--without-pyhessian", "skip PyHessian, in half the time", dest="pyhessian", action="store_false"),
]


def run(options: argparse.Namespace) -> None:
    """Write the estimates."""
    with arguments.analysis_inputs(options) as inputs:
        from flatfed.analysis.hessian.measure import HessianSettings, hessian

        settings = HessianSettings(**{field.name: getattr(options, field.name) for field in fields(HessianSettings)})
        hessian(options.run, inputs, options.out, settings)
