"""``flatfed order``: the order of a data set's images."""

from __future__ import annotations

import argparse

from flatfed.commands import arguments, kinds

DETAIL = """\
Writes which image lies in which place of a data set: for every place the rank of its image among all of the
part, sorted by SHA-256 of pixels, label and domain. `order: FILE` beside an npz or torchvision source of the same
images puts them into that order, so that runs of the one are those of the other, digit for digit. No image
is in the file."""
EXAMPLE = "python -m flatfed order resources/cifar10 --out cifar10-order.npz"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    sub.add_argument("dataset", type=kinds.folder, metavar="DATASET", help="folder of the data set")
    arguments.add_path(sub, "--out", "FILE", ".npz file to write")


def run(options: argparse.Namespace) -> None:
    """Write the order that the command line asks for."""
    from flatfed.data import order

    order.write(options.dataset, options.out)
