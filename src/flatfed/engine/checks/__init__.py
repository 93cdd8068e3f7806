"""Checks before the first round."""
