"""Tiny datasets for tests of sources and partitions: arrays, folders of pictures, a dataset folder."""

from __future__ import annotations

import numpy as np
from PIL import Image

from flatfed.data import dataset as datasets
from flatfed.data import keys, sources

SPEC = {"name": "mine", "classes": 3, "shape": [3, 8, 8]}


def arrays(**changes):
    """Return what an .npz source holds, 12 + 6 images of three classes; ``changes`` replace arrays, None removes."""
    rng = np.random.default_rng(1)
    content = {
        "train_images": rng.integers(0, 256, (12, 8, 8, 3)).astype(np.uint8),
        "train_labels": np.arange(12) % 3,
        "test_images": rng.integers(0, 256, (6, 8, 8, 3)).astype(np.uint8),
        "test_labels": np.arange(6) % 3,
    }
    return {key: value for key, value in {**content, **changes}.items() if value is not None}


def fetch(out, kind, path, spec=SPEC, **keys_of_source):
    """Fetch a dataset of ``spec`` from ``path`` into the folder ``out`` and load it."""
    sources.fetch({**spec, "source": {"source": kind, "path": str(path), **keys_of_source}}, out)
    return datasets.load(out)


def pictures(root, folders, count=5):
    """Make images of one colour each, which differs in every folder and for every number; add a hidden file."""
    for place, folder in enumerate(folders):
        (root / folder).mkdir(parents=True)
        (root / folder / ".hidden.png").write_bytes(b"not a picture")
        for number in range(count):
            Image.new("RGB", (9, 11), (40 * number, 20 * place, 200)).save(root / folder / f"{number}.png")


def save(folder, name, classes, train, test, domains=(None, None, None)):
    """Save black images of 1 x 8 x 8 pixels, ``train`` and ``test`` many, labelled in turn; return the folder.

    ``domains``: numbers of the training and of the test images, and the names.
    """
    parts = [
        datasets.Part(np.zeros((count, 1, 8, 8), np.uint8), (np.arange(count) + start) % classes, numbers)
        for count, start, numbers in zip((train, test), (0, train), domains, strict=False)
    ]
    spec = keys.DatasetSpecification(name=name, classes=classes, shape=[1, 8, 8], source={"source": "npz", "path": "x"})
    datasets.save(folder / name, spec, datasets.Images(*parts, domains[2]))
    return folder / name
