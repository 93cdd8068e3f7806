"""scikit-learn's embedded digits, and the sets made from them so that every paper has a preview without a download."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flatfed.data.dataset import Images, Part
from flatfed.errors import DataError, unknown


def digits(spec: dict[str, Any], source: dict[str, Any]) -> Images:
    """scikit-learn's 1,797 embedded 8 x 8 digits, grey levels 0..16 scaled to 0..255 and rounded.

    ``test`` images are set aside, class by class in proportion, by a fixed seed. ``expand: rotate90`` makes ten more
    classes, 10 to 19: the same digits turned by 90 degrees, dealt to the same part as their originals. ``expand:
    styles`` deals the digits to the ``domains`` of ``spec``, class by class in turn, so that no digit is in two, and
    draws each domain in the style it is named after (:data:`STYLES`).
    """
    from sklearn.datasets import load_digits

    found = load_digits()
    images = np.rint(found.images * (255 / 16)).astype(np.uint8)[:, None]
    labels = found.target.astype(np.int64)
    order = np.random.Generator(np.random.Philox(0)).permutation(len(labels))
    ranks, places = np.empty(len(labels)), np.empty(len(labels), dtype=np.int64)
    for c in range(10):
        own = order[labels[order] == c]
        places[own] = np.arange(len(own))
        ranks[own] = (places[own] + 0.5) / len(own)
    test = np.zeros(len(labels), dtype=bool)
    test[np.argsort(ranks, kind="stable")[: int(source["test"])]] = True
    expand, names, numbers = source.get("expand"), None, None
    where = f"dataset {spec['name']!r}"
    if expand == "rotate90":
        images = np.concatenate([images, np.rot90(images, axes=(2, 3))])
        labels, test = np.concatenate([labels, labels + 10]), np.concatenate([test, test])
    elif expand == "styles":
        names = spec.get("domains") or []
        if not names:
            raise DataError(f"{where}: source.expand: styles needs a list `domains` of {', '.join(STYLES)}")
        numbers = places % len(names)
        for number, name in enumerate(names):
            if name not in STYLES:
                raise DataError(unknown("style", name, STYLES, f"{where}: domains"))
            own = numbers == number
            images[own, 0] = np.stack([STYLES[name](image) for image in images[own, 0]])
    train, held_out = (
        Part(images[chosen], labels[chosen], None if numbers is None else numbers[chosen]) for chosen in (~test, test)
    )
    return Images(train, held_out, names)


def _blurred(image: np.ndarray) -> np.ndarray:
    """Return the mean over 3 x 3 pixels, the edge repeated."""
    from scipy import ndimage

    return np.rint(ndimage.uniform_filter(image.astype(float), 3, mode="nearest")).astype(np.uint8)


def _shrunk(image: np.ndarray) -> np.ndarray:
    """Return the image at three quarters of its size, in the middle of black: every pixel pair's means, 8 -> 6."""
    row, column = np.ogrid[:6, :8]
    # an output pixel covers 4/3 input pixels, from row * 4/3 on
    covered = np.minimum(column + 1, (row + 1) * 4 / 3) - np.maximum(column, row * 4 / 3)
    weights = np.maximum(0.0, covered) * 3 / 4
    return np.pad(np.rint(weights @ image @ weights.T).astype(np.uint8), 1)


def _rotated(image: np.ndarray) -> np.ndarray:
    """Return the image turned by 25 degrees about its middle, interpolated, black where nothing was."""
    from scipy import ndimage

    turned = ndimage.rotate(image.astype(float), -25, reshape=False, order=1, mode="grid-constant")
    return np.rint(turned).astype(np.uint8)


def _noisy(image: np.ndarray) -> np.ndarray:
    """Return the image with normal noise of deviation 40, the same whenever the image is the same."""
    seed = int(np.frombuffer(image.tobytes(), dtype="<u4").sum(dtype=np.uint64))
    noise = np.random.Generator(np.random.Philox(seed)).normal(0, 40, image.shape)
    return np.clip(np.rint(image + noise), 0, 255).astype(np.uint8)


#: Domain -> how an 8 x 8 image of it is drawn.
STYLES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "plain": lambda image: image,
    "inverted": lambda image: 255 - image,
    "blurred": _blurred,
    "shrunk": _shrunk,
    "rotated": _rotated,
    "shifted": lambda image: np.pad(image, ((0, 1), (0, 1)))[1:, 1:],
    "noisy": _noisy,
}
