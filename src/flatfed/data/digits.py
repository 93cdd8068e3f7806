"""scikit-learn's embedded digits and variants of them, for previews without a download."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flatfed.data.dataset import Images, Part
from flatfed.data.keys import DatasetSpecification
from flatfed.errors import DataError, unknown


def digits(spec: DatasetSpecification) -> Images:
    """Return scikit-learn's 1,797 digits of 8 x 8 pixels, scaled from 0..16 to 0..255 and rounded.

    A fixed seed draws ``test`` test images, stratified by class. ``expand: rotate90`` adds the rotated digits as ten
    classes, ``expand: styles`` splits each class among ``domains`` and applies the style of the domain's name.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise DataError("digits need scikit-learn; or copy the dataset's folder in resources/ from home") from error

    bunch = load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
    labels = bunch.target.astype(np.int64)
    order = np.random.Generator(np.random.Philox(0)).permutation(len(labels))
    ranks = np.empty(len(labels), dtype=np.int64)
    for c in range(10):
        members = order[labels[order] == c]
        ranks[members] = np.arange(len(members))
    quantiles = (ranks + 0.5) / np.bincount(labels)[labels]
    test = np.zeros(len(labels), dtype=bool)
    test[np.argsort(quantiles, kind="stable")[: spec.source.test]] = True
    names, numbers, where = None, None, f"dataset {spec.name!r}"
    if spec.source.expand == "rotate90":
        images = np.concatenate([images, np.rot90(images, axes=(2, 3))])
        labels, test = np.concatenate([labels, labels + 10]), np.concatenate([test, test])
    elif spec.source.expand == "styles":
        names = spec.domains or []
        if not names:
            raise DataError(f"{where}: source.expand: styles needs a list `domains` of {', '.join(STYLES)}")
        numbers = ranks % len(names)
        for number, name in enumerate(names):
            if name not in STYLES:
                raise DataError(unknown("style", name, STYLES, f"{where}: domains"))
            members = numbers == number
            images[members, 0] = np.stack([STYLES[name](image) for image in images[members, 0]])
    parts = [Part(images[mask], labels[mask], None if numbers is None else numbers[mask]) for mask in (~test, test)]
    return Images(*parts, names)


def _blurred(image: np.ndarray) -> np.ndarray:
    from scipy import ndimage

    return np.rint(ndimage.uniform_filter(image.astype(float), 3, mode="nearest")).astype(np.uint8)


def _shrunk(image: np.ndarray) -> np.ndarray:
    """Return the image scaled by area from 8 to 6 pixels, on black."""
    row, column = np.ogrid[:6, :8]
    # Output pixel `row` covers 4/3 input pixels from row * 4/3 on.
    covered = np.minimum(column + 1, (row + 1) * 4 / 3) - np.maximum(column, row * 4 / 3)
    weights = np.maximum(0.0, covered) * 3 / 4
    return np.pad(np.rint(weights @ image @ weights.T).astype(np.uint8), 1)


def _rotated(image: np.ndarray) -> np.ndarray:
    from scipy import ndimage

    rotated = ndimage.rotate(image.astype(float), -25, reshape=False, order=1, mode="grid-constant")
    return np.rint(rotated).astype(np.uint8)


def _noisy(image: np.ndarray) -> np.ndarray:
    seed = int(np.frombuffer(image.tobytes(), dtype="<u4").sum(dtype=np.uint64))
    noise = np.random.Generator(np.random.Philox(seed)).normal(0, 40, image.shape)
    return np.clip(np.rint(image + noise), 0, 255).astype(np.uint8)


#: Style of a domain -> function of an 8 x 8 image.
STYLES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "plain": lambda image: image,
    "inverted": lambda image: 255 - image,
    "blurred": _blurred,
    "shrunk": _shrunk,
    "rotated": _rotated,
    "shifted": lambda image: np.pad(image, ((0, 1), (0, 1)))[1:, 1:],
    "noisy": _noisy,
}
