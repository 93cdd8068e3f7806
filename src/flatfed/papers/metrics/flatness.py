"""Curvature of the loss at a final model: hessian.json."""

from __future__ import annotations

from flatfed.papers.quantity import Reading, metric


@metric("number", "Top eigenvalue of the Hessian", higher=False, source="analysis")
def hessian_top_eigenvalue(reading: Reading) -> float:
    """Largest eigenvalue of the training loss's Hessian at the final model (FedSMOO, Table 2)."""
    return reading.analysis.value("hessian_top_eigenvalue")


@metric("number", "Trace of the Hessian", higher=False, source="analysis")
def hessian_trace(reading: Reading) -> float:
    """Trace of the training loss's Hessian at the final model (FedSMOO, Table 2)."""
    return reading.analysis.value("hessian_trace")


@metric("number", "Top eigenvalue of the Hessian scaled by the weights", higher=False, source="analysis")
def hessian_scaled_top_eigenvalue(reading: Reading) -> float:
    """Largest eigenvalue of diag(|w|) H diag(|w|), which no scaling of filters can change (no paper prints it)."""
    return reading.analysis.value("hessian_scaled_top_eigenvalue")


@metric("number", "Trace of the Hessian scaled by the weights", higher=False, source="analysis")
def hessian_scaled_trace(reading: Reading) -> float:
    """Trace of diag(|w|) H diag(|w|), which no scaling of filters can change (no paper prints it)."""
    return reading.analysis.value("hessian_scaled_trace")
