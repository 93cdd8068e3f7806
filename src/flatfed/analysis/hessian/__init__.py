"""Eigenvalues and trace of the Hessian at a run's model."""
