"""Standard errors of the choice of images: how far an estimate on some images may be from that on all. Needs no torch.

The images at hand were drawn from all without replacement. They are split into parts at random: what an estimate varies
by from part to part says what it would vary by from one choice of images to another. Where all are taken there is no
such error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def error_of_mean(parts: Sequence[float], taken: float) -> float:
    """Return the standard error of a mean over images, from those over its ``parts``, which are of one size.

    ``taken``: the share of all images that was drawn; Cochran, Sampling Techniques (1977), section 2.6.
    """
    return float(np.std(parts, ddof=1)) / math.sqrt(len(parts)) * math.sqrt(1 - taken) if taken < 1 else 0.0


def error_of_largest(forms: np.ndarray, taken: float) -> float:
    """Return the standard error of the largest eigenvalue of the mean of ``forms`` (parts, k, k) over the parts.

    The jackknife that leaves out a part at a time (Shao and Tu, The Jackknife and Bootstrap, 1995, section 2.3), in the
    space of the k eigenvectors; a mean over images would have the error of :func:`error_of_mean`.
    """
    if taken >= 1:
        return 0.0
    count = len(forms)
    without = np.linalg.eigvalsh((forms.sum(axis=0) - forms) / (count - 1))[:, -1]
    return math.sqrt((count - 1) / count * float(np.square(without - without.mean()).sum()) * (1 - taken))
