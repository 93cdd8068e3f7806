"""``flatfed check``.

Reads all files of config/ and `table_folders`. Reports every mistake with file, key and value, or counts tables,
cells and runs. Lists the printed numbers that no cell uses.

example:
  python -m flatfed check --config config/config.yaml
"""

from __future__ import annotations

import argparse

from flatfed.commands import arguments, configuration
from flatfed.plan import numbers
from flatfed.plan.number import by_cell, runs_of
from flatfed.plan.units import plural

ARGUMENTS = [arguments.CONFIG]


def run(options: argparse.Namespace) -> None:
    """Print the numbers of declared entries, cells and runs; ConfigError with all mistakes."""
    experiment = configuration.load(options.config)
    experiment.check()
    scale = experiment.scale
    declared = ("datasets", "protocols", "splits", "algorithms", "tables", "figures")
    print(f"{len(experiment.errata.entries)} errata")
    print("declared: " + ", ".join(f"{len(getattr(experiment.catalog, kind))} {kind}" for kind in declared))
    runs: set[str] = set()
    for table, columns in experiment.existing(scale, experiment.requested).tables.items():
        of_table = numbers.numbers(experiment, scale, table, columns)
        needed = runs_of(of_table)
        print(f"{table}: {len(by_cell(of_table))} cells from {len(needed)} runs at {scale} scale")
        runs |= needed.keys()
    for line in experiment.left_out(scale, experiment.requested):
        print(line)
    if unused := numbers.unused(experiment):
        first = "; ".join(unused[:10]) + "; ..." * (len(unused) > 10)
        print(f"{plural(len(unused), 'printed number')} in no cell (absent row or column, or changed key): {first}")
    print(f"all of these: {len(runs)} runs, each trained once")
    print(f"report: {experiment.paths.report(scale)}")
