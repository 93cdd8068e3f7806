"""Optimisations that keep the results."""
