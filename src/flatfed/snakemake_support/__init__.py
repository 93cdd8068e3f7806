"""Helpers of the Snakefile: targets, progress bars, summary, warm jobs."""
