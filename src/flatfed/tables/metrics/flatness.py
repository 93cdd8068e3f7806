"""Curvature of the loss at a final model: hessian.json."""

from __future__ import annotations

from flatfed.tables.quantity import Reading, metric


@metric("number", "Top eigenvalue of the Hessian", higher=False, source="analysis")
def hessian_top_eigenvalue(reading: Reading) -> float:
    """Largest eigenvalue of the training loss's Hessian at the final model (FedSMOO, Table 2)."""
    return reading.analysis["top_eigenvalue"]


@metric("number", "Trace of the Hessian", higher=False, source="analysis")
def hessian_trace(reading: Reading) -> float:
    """Trace of the training loss's Hessian at the final model (FedSMOO, Table 2)."""
    return reading.analysis["trace"]
