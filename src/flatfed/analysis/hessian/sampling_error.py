"""Standard errors of image sampling: how far an estimate on some images may be from that on all. Needs no torch.

The images are drawn from all without replacement and split into random parts. The variation between the parts gives the
error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def error_of_mean(parts: Sequence[float], share: float) -> float:
    """Return the standard error of a mean over images, from the means over its equal ``parts``.

    ``share``: the drawn share of all images; Cochran, Sampling Techniques (1977), section 2.6.
    """
    return float(np.std(parts, ddof=1)) / math.sqrt(len(parts)) * math.sqrt(1 - share) if share < 1 else 0.0


def error_of_largest(forms: np.ndarray, share: float) -> float:
    """Return the standard error of the largest eigenvalue of the mean of ``forms`` (parts, k, k) over the parts.

    The delete-one jackknife (Shao and Tu, The Jackknife and Bootstrap, 1995, section 2.3) in the space of the k
    eigenvectors, with the correction of :func:`error_of_mean`.
    """
    if share >= 1:
        return 0.0
    count = len(forms)
    without = np.linalg.eigvalsh((forms.sum(axis=0) - forms) / (count - 1))[:, -1]
    return math.sqrt((count - 1) / count * float(np.square(without - without.mean()).sum()) * (1 - share))
