"""Estimates as hessian.json holds them, with standard errors of image sampling, and warnings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flatfed.analysis.hessian.eigen import Eigenpairs
from flatfed.analysis.hessian.estimates import MeanEstimate
from flatfed.runs.curvature import SCALED, Converged, Estimates, Hessian


@dataclass(frozen=True)
class HessianSettings:
    """Arguments of ``flatfed hessian``."""

    images: int | None  # None: all training images
    top: int  # eigenvalues
    residual: float  # ||H v - lambda v|| / |lambda| that is enough
    products: int  # at most, for the eigenvalues
    trace_error: float  # standard error / |trace| that is enough
    vectors: int  # at most, for the trace
    parts: int  # of the images, for their sampling error
    block: int  # vectors of a graph
    micro_batch: int  # images of a graph
    precision: str
    seed: int
    pyhessian: bool


def summarise(eigenpairs: Eigenpairs, trace: MeanEstimate, share: float) -> Estimates:
    """Return the estimates of one Hessian; ``share``: the drawn share of all images."""
    return Estimates(
        top_eigenvalue=float(eigenpairs.values[0]),
        trace=trace.value,
        eigenvalues=eigenpairs.values.tolist(),
        residuals=eigenpairs.residuals.tolist(),
        trace_standard_error=trace.standard_error,
        trace_vectors=trace.samples,
        top_eigenvalue_images_error=error_of_largest(eigenpairs.forms.cpu().numpy(), share),
        trace_images_error=error_of_mean(trace.parts, share),
        converged=Converged(eigenvalues=eigenpairs.converged, trace=trace.converged),
    )


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


def warnings(hessian: Hessian, settings: HessianSettings) -> list[str]:
    """Return a sentence for every problem with the estimates of ``hessian``."""
    sentences = unconverged(hessian.unscaled, settings)
    sentences += [SCALED + sentence for sentence in unconverged(hessian.scaled, settings)]
    if hessian.pyhessian_absent:
        sentences.append(f"PyHessian has no top eigenvalue and no trace: {hessian.pyhessian_absent}")
    if theirs := hessian.pyhessian:
        if not theirs.eigenvalue_converged:
            sentences.append("PyHessian's top eigenvalue has not converged")
        if not theirs.trace_converged:
            sentences.append("PyHessian's trace has not converged")
        for name in ("top_eigenvalue", "trace"):
            difference = getattr(hessian.agreement, name)
            if not difference.within:
                ours, other = getattr(hessian.unscaled, name), getattr(theirs, name)
                sentences.append(
                    f"{name.replace('_', ' ')}: {ours:.4g} here, {other:.4g} by PyHessian, further apart than their "
                    f"errors allow ({difference.error:.2g})"
                )
    return sentences


def unconverged(estimates: Estimates, settings: HessianSettings) -> list[str]:
    """Return a sentence for each estimate that has not met its stopping rule."""
    sentences = []
    if not estimates.converged.eigenvalues:
        pairs = zip(estimates.residuals, estimates.eigenvalues, strict=True)
        residual, eigenvalue = max(pairs, key=lambda pair: pair[0])
        sentences.append(
            f"the eigenvalues have not converged: residual {residual:.3g} of {eigenvalue:.3g}, expected "
            f"{settings.residual:.0%}"
        )
    if not estimates.converged.trace:
        sentences.append(
            f"the trace has not converged: {estimates.trace:.4g} with standard error "
            f"{estimates.trace_standard_error:.2g} after {estimates.trace_vectors} vectors, expected "
            f"{settings.trace_error:.0%}"
        )
    return sentences
