"""The digits of scikit-learn: plain, with rotated ones as classes, and drawn in the styles of several domains."""

from __future__ import annotations

import numpy as np
import pytest

from flatfed.data import dataset as datasets
from flatfed.data import sources
from flatfed.data.digits import STYLES
from flatfed.errors import DataError
from shipped import EXP

SPEC = {"name": "digits", "classes": 10, "shape": [1, 8, 8]}


def fetch(out, spec=SPEC, **source):
    sources.fetch({**spec, "source": {"source": "sklearn", "test": 500, **source}}, out)
    return datasets.load(out)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return fetch(tmp_path_factory.mktemp("plain"))


def test_digits_are_embedded_stratified_and_reproducible(plain, tmp_path):
    assert (plain.train, plain.test, plain.images.shape[1:]) == (1297, 500, (1, 8, 8))
    assert plain.images.max() == 255 and plain.digest == fetch(tmp_path).digest
    counts = np.bincount(plain.labels[plain.train :])
    assert counts.min() >= 47 and counts.max() <= 52
    datasets.verify(tmp_path)


def test_rotated_digits_make_ten_more_classes(tmp_path):
    digits = fetch(tmp_path, {**SPEC, "classes": 20}, expand="rotate90")
    half = digits.train // 2
    assert (digits.train, digits.test) == (2594, 1000)
    assert np.array_equal(digits.labels[half : digits.train], digits.labels[:half] + 10)
    assert np.array_equal(digits.images[half, 0], np.rot90(digits.images[0, 0]))


@pytest.mark.parametrize("name", ["digits-domains4", "digits-domains6"])
def test_digits_in_styles(plain, tmp_path, name):
    entry = EXP.catalog.datasets[name]
    spec = {"name": name, "classes": entry.classes, "shape": entry.shape, "domains": entry.domains}
    digits, again = (fetch(tmp_path / folder, spec, **entry.source.as_written()) for folder in ("a", "b"))
    assert digits.digest == again.digest and (digits.train, digits.test) == (entry.train, entry.test)
    assert np.array_equal(digits.labels, plain.labels)
    for number, style in enumerate(digits.domain_names):
        members = np.flatnonzero(digits.domains == number)
        assert len(members) >= 1797 // len(digits.domain_names) - 10, style
        assert len(np.unique(digits.labels[members])) == 10, style
        for place in members[:5]:
            assert np.array_equal(digits.images[place, 0], STYLES[style](plain.images[place, 0])), style
    pixels = digits.images[: digits.train] / 255
    assert (pixels.mean(), pixels.std()) == pytest.approx((entry.mean[0], entry.std[0]), abs=0.01)


def test_styles_by_hand():
    image = np.zeros((8, 8), np.uint8)
    image[3:5, 3:5] = 180
    shown = {style: draw(image) for style, draw in STYLES.items()}
    assert shown["plain"] is image and shown["inverted"].tolist() == (255 - image).tolist()
    assert np.argwhere(shown["shifted"]).tolist() == [[2, 2], [2, 3], [3, 2], [3, 3]]
    assert shown["blurred"][3, 3] == 80 and shown["blurred"][2, 2] == 20 and shown["blurred"][1, 1] == 0
    # three quarters of the length: what was 2 x 2 pixels of 180 covers 1.5 x 1.5
    assert shown["shrunk"].sum() == pytest.approx(180 * 1.5**2, abs=2)
    assert np.array_equal(shown["shrunk"], shown["shrunk"][::-1, ::-1])
    assert np.array_equal(shown["rotated"], shown["rotated"][::-1, ::-1]), "a turn keeps the symmetry of a half turn"
    assert not np.array_equal(shown["rotated"], shown["rotated"].T)
    assert np.array_equal(STYLES["noisy"](image), shown["noisy"]) and shown["noisy"][image == 0].std() > 10


@pytest.mark.parametrize(
    ("spec", "expand", "message"),
    [
        ({}, "rotate", "unknown value 'rotate'; did you mean 'rotate90'"),
        ({"domains": ["plain", "blured"]}, "styles", "unknown style 'blured'; did you mean 'blurred'"),
        ({}, "styles", "styles needs a list `domains`"),
    ],
)
def test_unknown_styles_are_refused_by_name(tmp_path, spec, expand, message):
    with pytest.raises(DataError, match=message):
        fetch(tmp_path, {**SPEC, **spec}, expand=expand)
