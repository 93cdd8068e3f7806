"""Flatness of the minima that finished runs reached: Hessians and loss surfaces."""
