"""Checks around the rounds of a job, and the contract of an algorithm."""
