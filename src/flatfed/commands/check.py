"""``flatfed check``: the configuration, validated and counted.

Reads every file under config/ and of `table_folders`, and reports all mistakes with file, key and value, or
counts what would be made.

example:
  python -m flatfed check --config config/config.yaml
"""

from __future__ import annotations

import argparse

from flatfed.commands import arguments, configuration

ARGUMENTS = [arguments.CONFIG]


def run(options: argparse.Namespace) -> None:
    """Print what the configuration declares and what it asks for.

    :raises ConfigError: all mistakes in the files.
    """
    experiment = configuration.load(options.config)
    experiment.check()
    scale = experiment.scale
    declared = ("datasets", "protocols", "splits", "algorithms", "tables", "figures")
    print(f"{len(experiment.errata.entries)} errata")
    print("declared: " + ", ".join(f"{len(getattr(experiment.catalog, kind))} {kind}" for kind in declared))
    runs: set[str] = set()
    for table, columns in experiment.selected().tables:
        needed = {run.path for run in experiment.table_runs(scale, table, columns)}
        cells = experiment.cells(scale, table, columns)
        print(f"{table}: {len(cells)} cells from {len(needed)} runs at {scale} scale")
        runs |= needed
    for line in experiment.left_out():
        print(line)
    print(f"all of these: {len(runs)} runs, each trained once")
    print(f"report: {experiment.places.report(scale)}")
