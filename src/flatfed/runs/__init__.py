"""Runs on disk: paths, descriptions, records, locks and JSON files of analyses. Needs neither torch nor NumPy."""
