"""What hessian.json says of estimates: numbers with their errors and intervals, and warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flatfed.analysis.hessian.eigen import Eigen
from flatfed.analysis.hessian.estimates import Mean
from flatfed.analysis.hessian.sampling_error import of_largest, of_mean
from flatfed.runs import curvature

if TYPE_CHECKING:
    from flatfed.analysis.hessian.measure import Settings


def of(known: Eigen, traced: Mean, taken: float) -> dict[str, Any]:
    """Return what the file says of one Hessian, ``taken``: the share of all images that it is on."""
    top, forms = float(known.values[0]), known.forms.cpu().numpy()
    errors = {"top_eigenvalue": of_largest(forms, taken), "trace": of_mean(traced.parts, taken)}
    images = {name: (error, len(forms) - 1) for name, error in errors.items()}
    half = {
        "top_eigenvalue": float(known.residuals[0]) + curvature.half_width([images["top_eigenvalue"]]),
        "trace": curvature.half_width([(traced.standard_error, traced.samples - 1), images["trace"]]),
    }
    return {
        "top_eigenvalue": top,
        "trace": traced.value,
        "eigenvalues": known.values.tolist(),
        "residuals": known.residuals.tolist(),
        "certain": known.certain.tolist(),
        "trace_standard_error": traced.standard_error,
        "trace_vectors": traced.samples,
        **{f"{name}_images_error": error for name, error in errors.items()},
        "top_eigenvalue_interval": [top - half["top_eigenvalue"], top + half["top_eigenvalue"]],
        "trace_interval": [traced.value - half["trace"], traced.value + half["trace"]],
        "converged": {"eigenvalues": known.converged, "trace": traced.converged},
    }


def warnings(found: dict[str, Any], settings: Settings) -> list[str]:
    """Return what a reader of the numbers ought to know."""
    scaled = unconverged(found["scaled"], settings)
    said = [*unconverged(found, settings), *(curvature.SCALED + text for text in scaled)]
    if found["pyhessian_absent"]:
        said.append(f"PyHessian has no top eigenvalue and no trace: {found['pyhessian_absent']}")
    other = found["pyhessian"] or {}
    for key, what in (("eigenvalue_converged", "top eigenvalue"), ("trace_converged", "trace")):
        if not other.get(key, True):
            said.append(f"PyHessian's {what} has not converged")
    for field, compared in (found["agreement"] or {}).items():
        if not compared["within"]:
            said.append(
                f"{field.replace('_', ' ')}: {found[field]:.4g} here, {found['pyhessian'][field]:.4g} by PyHessian, "
                f"further apart than their errors allow ({compared['error']:.2g})"
            )
    return said


def unconverged(found: dict[str, Any], settings: Settings) -> list[str]:
    """Return which estimates of one Hessian have not met their stopping rule."""
    said = []
    if not found["converged"]["eigenvalues"]:
        worst = max(range(len(found["residuals"])), key=lambda i: found["residuals"][i])
        said.append(
            f"the eigenvalues have not converged: residual {found['residuals'][worst]:.3g} of "
            f"{found['eigenvalues'][worst]:.3g}, wanted is {settings.residual:.0%}"
        )
    if not found["converged"]["trace"]:
        said.append(
            f"the trace has not converged: {found['trace']:.4g} with standard error "
            f"{found['trace_standard_error']:.2g} after {found['trace_vectors']} vectors, wanted is "
            f"{settings.trace_error:.0%}"
        )
    return said
