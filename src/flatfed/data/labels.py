"""Labels of images: whole numbers from 0, one of each image."""

from __future__ import annotations

import numpy as np

from flatfed.errors import DataError


def of_images(array: np.ndarray, images: int, where: str) -> np.ndarray:
    """Return the labels (n,) int64 of ``images`` from the ``array`` of a file, (n,) or (n, 1).

    :raises DataError: another shape or type; its message begins with ``where``.
    """
    if array.shape in ((images,), (images, 1)) and np.issubdtype(array.dtype, np.integer):
        return array.reshape(-1).astype(np.int64)
    remedy = "store labels.argmax(axis=1) of one-hot rows, numpy.unique(labels, return_inverse=True)[1] of names"
    raise DataError(f"{where} is {array.dtype} of shape {array.shape}; expected {images} whole numbers: {remedy}")


def check(train: np.ndarray, test: np.ndarray, classes: int | None, where: str) -> int:
    """Return the number of classes, of which training images have all, and test images no other: 0 to ``classes`` - 1.

    Without declared ``classes``, that of the largest label.

    :raises DataError: other labels; its message begins with ``where`` and says what to do.
    """
    of_train, of_test = np.unique(train), np.unique(test)
    expected = classes or 1 + int(max([*of_train, *of_test], default=0))
    if np.array_equal(of_train, np.arange(expected)) and np.isin(of_test, of_train).all():
        return expected
    found = f"training images have the labels {_ranges(of_train)}, and test images {_ranges(of_test)}"
    declared = f", for `classes: {classes}`" if classes else ""
    count = classes or len(np.union1d(of_train, of_test)) or 1
    numbers = f"0 to {count - 1}{declared}, each among the training images"
    remedy = "number the classes as numpy.unique(labels, return_inverse=True)[1] does, or correct `classes`"
    raise DataError(f"{where}: {found}; expected {numbers}: {remedy}")


def _ranges(values: np.ndarray) -> str:
    """Return sorted integers as text, such as "0 to 2, 5"."""
    parts = np.split(values, np.flatnonzero(np.diff(values) != 1) + 1) if len(values) else []
    texts = [f"{part[0]}" if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts]
    return ", ".join([*texts[:10], "..."] if len(texts) > 10 else texts) or "none"
