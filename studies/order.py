"""Write the order of a dataset's images, for users who have the same images in another order.

    python studies/order.py resources/cifar10 --out cifar10-order.npz

The file contains, for each index of the training and the test part, the rank of its image by SHA-256 of pixels, label
and domain. `order: FILE` next to an npz or torchvision source restores this order, so that runs repeat digit for digit.
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

    Arrays: ``train`` (n,) and ``test`` (m,), uint32; ``digest`` of the dataset. DataError for a damaged dataset.
    """
    datasets.verify(folder)
    data = datasets.load(folder)
    ranks = {}
    for name, indices in zip(order.PARTS, (slice(data.train), slice(data.train, None)), strict=True):
        domains = None if data.domains is None else data.domains[indices]
        part = Part(data.images[indices], data.labels[indices], domains)
        ranks[name] = np.argsort(order.by_content(part)).astype(np.uint32)
    with write_whole(path) as file:
        np.savez_compressed(file, **ranks, digest=np.array(data.digest))


def main() -> None:
    """Parse the command line and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", type=Path, help="dataset folder")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help=".npz file to write")
    options = parser.parse_args()
    write(options.dataset, options.out)


if __name__ == "__main__":
    main()
