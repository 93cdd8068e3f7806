"""Runs on disk: paths, descriptions, records, locks and the JSON files of analyses. Needs neither torch nor NumPy."""
