"""Checks around the first round of a job, and the contract of an algorithm."""
