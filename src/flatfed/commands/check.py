"""``flatfed check``.

Reads all files of config/ and `folders`. Reports every mistake with file, key and value, or counts tables,
cells and runs. Lists the printed numbers that no cell uses. With names of algorithms, checks instead that their hooks
keep the contract of docs/add-an-algorithm.md, on a toy problem; --set changes their parameters.

example:
  flatfed check --config config/config.yaml
  flatfed check fedsmoo my_algorithm
  flatfed check fedsmoo --set rho=0.05 --set s=paper
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterable
from pathlib import Path

from flatfed import models
from flatfed.algorithms import load
from flatfed.commands import arguments, configuration
from flatfed.data import counting
from flatfed.data.keys import DatasetSpecification
from flatfed.errors import ConfigError, DataError
from flatfed.models import pretrained
from flatfed.plan import numbers
from flatfed.plan.number import by_cell, runs_of
from flatfed.plan.units import plural
from flatfed.runs.run import Run

ARGUMENTS = [
    arguments.argument("algorithms", str, "algorithms to train on a toy problem", nargs="*", metavar="ALGORITHM"),
    arguments.argument("--set", arguments.value, "a parameter of the algorithms", action="append", metavar="KEY=VALUE"),
    arguments.CONFIG,
]


def run(options: argparse.Namespace) -> None:
    """Print the numbers of declared entries, cells and runs; ConfigError with all mistakes.

    With algorithms, print the conditions that they meet.
    """
    experiment = configuration.load(options.config)
    params = dict(configuration.overrides(options.set, "--set"))
    if params and not options.algorithms:
        raise ConfigError(f"--set {options.set[0]}: changes a parameter of an algorithm; name the algorithm")
    if options.algorithms:
        from flatfed.engine.checks import contract

        for name in options.algorithms:
            for sentence in contract.check(name, params):
                print(f"{name}: {sentence}")
        return
    scale, catalog = experiment.scale, experiment.catalog
    declared = {kind: getattr(catalog, kind) for kind in ("datasets", "protocols", "splits", "algorithms")}
    shown = {"tables": experiment.tables, "figures": experiment.figures}
    print(f"{len(experiment.errata.entries)} errata")
    print("declared: " + ", ".join(f"{len(entries)} {kind}" for kind, entries in (declared | shown).items()))
    for kind, entries in shown.items():
        if own := [name for name, entry in entries.items() if not entry.file.startswith("config/")]:
            print(f"{kind} of yours: {', '.join(own)}")
    runs: dict[str, Run] = {}
    for table, columns in experiment.existing(scale, experiment.requested).tables.items():
        of_table = numbers.numbers(experiment, scale, table, columns)
        needed = runs_of(of_table)
        print(f"{table}: {len(by_cell(of_table))} cells from {len(needed)} runs at {scale} scale")
        runs |= needed
    doubled = (run for run in runs.values() if run.config.momentum and load(run.config.update.name).own_momentum)
    for algorithm, protocol in dict.fromkeys((run.algorithm, run.protocol) for run in doubled):
        print(f"warning: {algorithm}: `momentum` of protocol {protocol} adds to the algorithm's own momentum")
    _print_refusals(runs.values())
    for name in sorted({run.dataset for run in runs.values()}):
        _print_images(catalog.dataset_spec(name))
    weights = {run.config.model.weights: run.weights for run in runs.values() if run.weights}
    for name, file in weights.items():
        if not Path(file).exists():
            print(f"warning: weights {name!r}: {pretrained.missing(name, file)}")
    for line in experiment.left_out(scale, experiment.requested):
        print(line)
    if unused := numbers.unused(experiment):
        first = "; ".join([*unused[:10], "..."] if len(unused) > 10 else unused)
        print(f"{plural(len(unused), 'printed number')} in no cell (absent row or column, or changed key): {first}")
    print(f"all of these: {len(runs)} runs, each trained once")
    print(f"report: {experiment.paths.report(scale)}")


def _print_refusals(runs: Iterable[Run]) -> None:
    """Print a warning for each executor that cannot run a layer of a model; without torch, or other models, none."""
    uncertain = [run for run in runs if models.has_statistics(run.config.model.name)]
    if uncertain and importlib.util.find_spec("torch"):
        from flatfed.engine.checks import layers

        for run in {run.protocol: run for run in uncertain}.values():
            for device, reason in layers.refusals(run.config):
                print(f"warning: protocol {run.protocol}, device {device}: {reason}")


def _print_images(spec: DatasetSpecification) -> None:
    """Print what is not read next to a dataset's images on disk; DataError for images or labels that do not fit."""
    kind, source = spec.source.source, spec.source
    if kind not in counting.COUNTS or not Path(source.path).exists():
        return
    where = f"dataset {spec.name!r}: source"
    classes = counting.COUNTS[kind](source, spec.domains, where).classes
    if classes != spec.classes:
        raise DataError(f"{where}: {source.path} has {classes} classes, but `classes: {spec.classes}` is declared")
    if ignored := counting.ignored(source, spec.domains, where):
        print(f"warning: dataset {spec.name!r}: {counting.not_read(ignored)}")
