"""Eigenvalues and trace of the Hessian at a run's model."""

#: Increased when the numbers of a hessian.json change.
VERSION = 1
