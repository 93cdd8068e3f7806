"""Deviations of public code from its paper: a class for each value with "@" of a parameter.

:func:`flatfed.algorithms.build` puts the class before that of the algorithm.
"""

from __future__ import annotations

from flatfed.algorithms.as_published.fedlesam_d6663cc import ByTensorNumber, UnweightedGradient
from flatfed.algorithms.as_published.fedwmsam_a922a1d import Downhill
from flatfed.algorithms.as_published.fl_sam_2c16149 import DistanceNotSquared, FirstCoordinates
from flatfed.algorithms.as_published.fl_simulator_653ebb5 import UnrepairedDual

#: (parameter, value) -> class.
FORMS = {
    ("fresh", "FedLESAM@d6663cc"): UnweightedGradient,
    ("regulariser", "FL-SAM@2c16149"): DistanceNotSquared,
    ("unpacking", "FedLESAM@d6663cc"): ByTensorNumber,
    ("unpacking", "FedWMSAM@a922a1d"): Downhill,
    ("unpacking", "FL-SAM@2c16149"): FirstCoordinates,
    ("unpacking", "FL-Simulator@653ebb5"): UnrepairedDual,
}
