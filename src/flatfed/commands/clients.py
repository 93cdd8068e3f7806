r"""``flatfed clients``.

Writes a CSV: the accuracy (a fraction) of the final model on 1,000 test images, or all if there are fewer, that are
drawn for each client, with replacement, in proportion to the classes of its training images. The last lines summarise
the clients: mean, worst_tenth (mean of the tenth of the clients with the lowest accuracies, rounded up), median,
deviation (population). The draw depends on the run's seed. model_sha256 is the digest of the model file.

example:
  flatfed clients results/preview/runs/fedsmoo-cifar10/dir0.6-100/fedsmoo/seed1 \
    --dataset resources/digits --partition results/preview/partitions/fedsmoo-cifar10/dir0.6-100/seed1.npz \
    --out clients.csv
"""

from __future__ import annotations

import argparse

from flatfed.commands import arguments
from flatfed.commands.arguments import required

ARGUMENTS = [
    *arguments.ANALYSIS,
    required("--out", arguments.ending(".csv"), "file to write", metavar="CSV"),
]


def run(options: argparse.Namespace) -> None:
    """Write the accuracies."""
    with arguments.analysis_inputs(options) as inputs:
        from flatfed.analysis.client_accuracy import client_accuracy

        client_accuracy(options.run, inputs, options.out)
