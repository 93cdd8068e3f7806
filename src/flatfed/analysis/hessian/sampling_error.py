"""Standard errors of estimates on a sample of the images, from its random parts. Needs no torch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def error_of_mean(parts: Sequence[float], share: float) -> float:
    """Return the standard error of a mean over a ``share`` of all images, from the means over its equal ``parts``.

    Cochran, Sampling Techniques (1977), section 2.6.
    """
    return float(np.std(parts, ddof=1)) / math.sqrt(len(parts)) * math.sqrt(1 - share) if share < 1 else 0.0


def error_of_largest(forms: np.ndarray, share: float) -> float:
    """Return the standard error of the largest eigenvalue of the mean of ``forms`` (parts, k, k) over the parts.

    The delete-one jackknife (Shao and Tu, The Jackknife and Bootstrap, 1995, section 2.3) in the space of the k
    eigenvectors, corrected as in :func:`error_of_mean`.
    """
    if share >= 1:
        return 0.0
    count = len(forms)
    without = np.linalg.eigvalsh((forms.sum(axis=0) - forms) / (count - 1))[:, -1]
    return math.sqrt((count - 1) / count * float(np.square(without - without.mean()).sum()) * (1 - share))
