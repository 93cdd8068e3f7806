"""Helpers of the Snakefile: targets, progress bars, closing messages, jobs forked from a warm process."""
