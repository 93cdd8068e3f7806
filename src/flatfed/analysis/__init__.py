"""Flatness of the minima of finished runs: Hessians and loss surfaces."""
