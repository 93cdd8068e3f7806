"""Flatness of the minima of finished runs: Hessians and loss surfaces."""

#: Each is increased when the numbers of its file change.
HESSIAN_VERSION, SURFACE_VERSION = 1, 1
