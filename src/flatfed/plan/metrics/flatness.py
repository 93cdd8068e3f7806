"""Curvature of the training loss at a final model (FedSMOO, Table 2).

The scaled metrics, of diag(|w|) H diag(|w|), are invariant to the scaling of filters.
"""

from __future__ import annotations

from flatfed.plan.quantity import register

WORDS = {
    "hessian_top_eigenvalue": "Top eigenvalue of the Hessian",
    "hessian_trace": "Trace of the Hessian",
    "hessian_scaled_top_eigenvalue": "Top eigenvalue of the Hessian scaled by the weights",
    "hessian_scaled_trace": "Trace of the Hessian scaled by the weights",
}
for name, words in WORDS.items():
    value = lambda reading, name=name: reading.analysis.value(name)  # noqa: E731
    register(name, value, "number", words, higher=False, source="analysis")
