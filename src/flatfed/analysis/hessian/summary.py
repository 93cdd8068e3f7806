"""What hessian.json says of estimates: numbers with their errors, and warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flatfed.analysis.hessian.eigen import Eigen
from flatfed.analysis.hessian.estimates import Mean
from flatfed.analysis.hessian.sampling_error import error_of_largest, error_of_mean
from flatfed.runs.curvature import SCALED, Converged, Estimates, Hessian

if TYPE_CHECKING:
    from flatfed.analysis.hessian.measure import HessianSettings


def summarise(known: Eigen, traced: Mean, taken: float) -> Estimates:
    """Return what the file says of one Hessian; ``taken``: the share of all images that the estimates are on."""
    return Estimates(
        top_eigenvalue=float(known.values[0]),
        trace=traced.value,
        eigenvalues=known.values.tolist(),
        residuals=known.residuals.tolist(),
        trace_standard_error=traced.standard_error,
        trace_vectors=traced.samples,
        top_eigenvalue_images_error=error_of_largest(known.forms.cpu().numpy(), taken),
        trace_images_error=error_of_mean(traced.parts, taken),
        converged=Converged(eigenvalues=known.converged, trace=traced.converged),
    )


def warnings(hessian: Hessian, settings: HessianSettings) -> list[str]:
    """Return the sentences that a reader of the numbers ought to know."""
    sentences = unconverged(hessian.own, settings)
    sentences += [SCALED + sentence for sentence in unconverged(hessian.scaled, settings)]
    if hessian.pyhessian_absent:
        sentences.append(f"PyHessian has no top eigenvalue and no trace: {hessian.pyhessian_absent}")
    if theirs := hessian.pyhessian:
        if not theirs.eigenvalue_converged:
            sentences.append("PyHessian's top eigenvalue has not converged")
        if not theirs.trace_converged:
            sentences.append("PyHessian's trace has not converged")
        for name in ("top_eigenvalue", "trace"):
            compared = getattr(hessian.agreement, name)
            if not compared.within:
                sentences.append(
                    f"{name.replace('_', ' ')}: {getattr(hessian.own, name):.4g} here, {getattr(theirs, name):.4g} by "
                    f"PyHessian, further apart than their errors allow ({compared.error:.2g})"
                )
    return sentences


def unconverged(found: Estimates, settings: HessianSettings) -> list[str]:
    """Return a sentence for each estimate of one Hessian that has not met its stopping rule."""
    sentences = []
    if not found.converged.eigenvalues:
        residual, eigenvalue = max(zip(found.residuals, found.eigenvalues, strict=True), key=lambda pair: pair[0])
        sentences.append(
            f"the eigenvalues have not converged: residual {residual:.3g} of {eigenvalue:.3g}, wanted is "
            f"{settings.residual:.0%}"
        )
    if not found.converged.trace:
        sentences.append(
            f"the trace has not converged: {found.trace:.4g} with standard error {found.trace_standard_error:.2g} "
            f"after {found.trace_vectors} vectors, wanted is {settings.trace_error:.0%}"
        )
    return sentences
