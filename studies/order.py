"""Write the order of a data set's images, for users who have the same images in another order.

    python studies/order.py resources/cifar10 --out cifar10-order.npz

For every place of the training and of the test part, the file holds the rank of its image among all images of the part,
sorted by SHA-256 of pixels, label and domain. It holds no image. `order: FILE` next to an npz or torchvision source of
the same images puts them into this order, so that runs are reproduced digit for digit.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from flatfed.data import dataset as datasets
from flatfed.data import order
from flatfed.data.dataset import Part
from flatfed.files import write_whole


def write(folder: Path | str, path: Path | str) -> None:
    """Write the order of the images in a dataset's ``folder`` to ``path``, an .npz file.

    It has ``train`` (n,) and ``test`` (m,), uint32, and ``digest``, that of the dataset. Raises DataError where
    ``folder`` holds no dataset, or a damaged one.
    """
    datasets.verify(folder)
    data = datasets.load(folder)
    ranks = {}
    for name, kept in zip(order.PARTS, (slice(data.train), slice(data.train, None)), strict=True):
        domains = None if data.domains is None else data.domains[kept]
        part = Part(data.images[kept], data.labels[kept], domains)
        ranks[name] = np.argsort(order.by_content(part)).astype(np.uint32)
    with write_whole(path) as file:
        np.savez_compressed(file, **ranks, digest=np.array(data.digest))


def main() -> None:
    """Write the file that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", type=Path, help="folder of the data set")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help=".npz file to write")
    options = parser.parse_args()
    write(options.dataset, options.out)


if __name__ == "__main__":
    main()
