"""Labels of images: whole numbers from 0, one of each image."""

from __future__ import annotations

import numpy as np

from flatfed.errors import DataError


def of_images(array: np.ndarray, images: int, where: str) -> np.ndarray:
    """Return the labels (n,) int64 of ``images`` from the ``array`` of a file, (n,) or (n, 1).

    :raises DataError: another shape or type; its message begins with ``where``.
    """
    problem = f"is {array.dtype} of shape {array.shape}; expected {images} whole numbers"
    if array.ndim == 2 and len(array) == images and array.shape[1] > 1 and np.isin(array, (0, 1)).all():
        one_hot = (array.sum(axis=1) == 1).all()
        several = "some images have several labels or none; choose one label for each image"
        problem += f": {'these are one-hot rows; store labels.argmax(axis=1)' if one_hot else several}"
    elif array.shape in ((images,), (images, 1)):
        if np.issubdtype(array.dtype, np.integer):
            return array.reshape(-1).astype(np.int64)
        if array.dtype.kind in "fb" and (array == np.rint(array)).all():
            problem += ": store labels.astype(int)"
        elif array.dtype.kind in "US":
            problem += ": store numpy.unique(labels, return_inverse=True)[1]"
    raise DataError(f"{where} {problem}")


def check(train: np.ndarray, test: np.ndarray, classes: int | None, where: str) -> int:
    """Return the number of classes, of which training images have all, and test images no other: 0 to ``classes`` - 1.

    Without declared ``classes``, that of the largest label.

    :raises DataError: other labels; its message begins with ``where`` and says what to do.
    """
    of_train, of_test = np.unique(train), np.unique(test)
    present = np.union1d(of_train, of_test)
    if not len(present):
        raise DataError(f"{where}: there are no images")
    first, last, count = int(present[0]), int(present[-1]), len(present)
    expected, without_gaps = classes or last + 1, last - first + 1 == count
    if np.array_equal(of_train, np.arange(expected)) and count == expected:
        return expected
    if without_gaps and first and classes in (None, count):
        remedy = f"subtract {first} from every label" if first > 0 else f"add {-first} to every label"
    elif len(of_train) < count:
        absent = _ranges(np.setdiff1d(present, of_train))
        remedy = f"remove the test images of {absent}, which no client can learn, or add training images"
    elif without_gaps and not first:
        remedy = f"declare `classes: {count}`" + (", or add the other images" if count < classes else "")
    else:
        remedy = "number the classes without gaps, as numpy.unique(labels, return_inverse=True)[1] does"
    found = f"training images have the labels {_ranges(of_train)}, and test images {_ranges(of_test)}"
    declared = f", for `classes: {classes}`" if classes else ""
    raise DataError(f"{where}: {found}; expected 0 to {(classes or count) - 1}{declared}: {remedy}")


def _ranges(values: np.ndarray) -> str:
    """Return sorted integers as text, such as "0 to 2, 5"."""
    parts = np.split(values, np.flatnonzero(np.diff(values) != 1) + 1) if len(values) else []
    texts = [f"{part[0]}" if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts]
    return ", ".join([*texts[:10], "..."] if len(texts) > 10 else texts) or "none"
