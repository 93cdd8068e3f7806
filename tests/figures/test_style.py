"""Figures: smoothing by hand, fixed colours that colour-blind readers can tell apart, lines of captions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from flatfed import algorithms
from flatfed.figures import draw_curves, palette

#: The algorithms that one figure of a paper shows together.
TOGETHER = {
    "fedsam2022": ["fedavg", "scaffold", "fedrobust", "fedcm", "mimelite", "fedsam", "mofedsam"],
    "fedsmoo2023": ["fedavg", "fedadam", "scaffold", "fedcm", "feddyn", "fedsam", "mofedsam", "fedsmoo"],
    "fedlesam2024": ["fedavg", "fedsam", "mofedsam", "fedgamma", "fedsmoo", "fedlesam", "centralised_sam"],
    "dfedsam2023": ["fedavg", "fedsam", "dpsgd", "dfedavg", "dfedavgm", "dispfl", "dfedsam", "dfedsam_mgs"],
}


def test_hanning_by_hand():
    """Three points have the weights 1/4, 1/2, 1/4; five have 1/12, 3/12, 4/12, 3/12, 1/12. Ends keep their values."""
    values = np.array([0.0, 4.0, 0.0, 0.0, 8.0])
    np.testing.assert_allclose(draw_curves.hanning(values, 3), [0.0, 2.0, 1.0, 2.0, 8.0])
    np.testing.assert_allclose(draw_curves.hanning(values, 5), [0.0, 2.0, 20 / 12, 2.0, 8.0])
    for length, window in itertools.product((1, 2, 3, 6), (0, 1, 5, 51)):
        np.testing.assert_allclose(draw_curves.hanning(np.full(length, 3.0), window), np.full(length, 3.0))
        assert draw_curves.hanning(np.arange(length) ** 2.0, window)[[0, -1]].tolist() == [0.0, (length - 1) ** 2]


def test_every_algorithm_of_the_house_has_its_own_look():
    assert sorted(palette.STYLES) == sorted(algorithms.names())
    assert len({colour for colour, _ in palette.STYLES.values()}) == len(palette.STYLES)
    assert palette.style("fedsmoo~rho0.05")[0] == palette.style("fedsmoo")[0]
    assert palette.style("my_own") == palette.style("my_own")
    assert palette.style("my_own")[0] not in {colour for colour, _ in palette.STYLES.values()}


def lab(rgb: np.ndarray) -> np.ndarray:
    """Return CIE L*a*b* of linear RGB."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb
    f = np.cbrt(np.clip(xyz / [0.9505, 1.0, 1.089], 1e-9, None))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def seen(colour: str, blindness: np.ndarray) -> np.ndarray:
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return lab(np.clip(blindness @ linear, 0, 1))


#: What full vision, deuteranopia and protanopia make of linear RGB (Machado, Oliveira and Fernandes 2009, severity 1).
VISION = {
    "full": np.eye(3),
    "deuteranopia": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
    "protanopia": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
}


@pytest.mark.parametrize("vision", VISION)
def test_lines_drawn_together_can_be_told_apart(vision):
    for names in TOGETHER.values():
        for one, other in itertools.combinations(names, 2):
            (a, dash_a), (b, dash_b) = palette.style(one), palette.style(other)
            distance = np.linalg.norm(seen(a, VISION[vision]) - seen(b, VISION[vision]))
            assert distance > (12 if dash_a == dash_b else 5), (one, other, distance)
