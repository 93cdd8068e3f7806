"""``flatfed compare``.

Prints the differences between your method and baselines per protocol, split and seed, from metrics.csv and run.json of
the runs in folders: the mean of all common rounds, the number of a table at the last common round, and the rounds to
each target of the protocol. Several seeds: with the mean difference and its sample deviation. Runs that still train
count, too: a training writes its lines every 10 seconds. Runs of a pair have the same data and partition. The CSV has
fractions.

example:
  flatfed compare fedsmoo fedavg fedsam --runs results/published/fedsmoo-cifar10/runs --out compare.csv
"""

from __future__ import annotations

import argparse
import sys

import pandas as pd

from flatfed.commands import arguments, configuration
from flatfed.commands.arguments import argument, required
from flatfed.commands.plan import PUBLISHED
from flatfed.errors import DataError
from flatfed.files import write_whole
from flatfed.plan import Experiment, lookup, protocols
from flatfed.plan.units import written
from flatfed.runs.paths import without_label
from flatfed.runs.record import ORDER, RunRecord
from flatfed.runs.store import Store, check_has_runs
from flatfed.tables import paired

ARGUMENTS = [
    argument("mine", str, "your method, the id of an algorithm", metavar="MINE"),
    argument("baselines", str, "the methods to compare with", nargs="+", metavar="BASELINE"),
    required("--runs", arguments.folder, "folders with runs of these methods", nargs="+", metavar="FOLDER"),
    argument("--out", arguments.ending(".csv"), "a CSV file for the lines"),
    arguments.CONFIG,
]


def run(options: argparse.Namespace) -> None:
    """Print the comparison, and write it.

    :raises DataError: a folder without runs, no pair or, after the comparison, a refused pair or a damaged run.
    """
    experiment = configuration.load(options.config)
    for name in (options.mine, *options.baselines):
        lookup.check_algorithm(name, experiment.catalog.algorithms, "compare")
    if options.mine in options.baselines:
        raise DataError(f"{options.mine!r} is your method and a baseline; name another baseline")
    for folder in options.runs:
        check_has_runs(folder)
    store, published = (Store(folders, alone=True, so_far=True) for folders in (options.runs, [PUBLISHED]))
    records, lines, refused, notes = store.records, [], [], []
    for mine, base in paired.pairs(experiment, store, options.mine, options.baselines):
        both = {run.path: records[run.path] for run in (mine, base)}
        if len({(record.dataset_digest, record.partition_digest) for record in both.values()}) > 1:
            refused.append(f"{base.path}: trained on other data or another partition than {mine.path}")
            continue
        settings = experiment.catalog.settings(mine.scale, mine.protocol)
        series = [paired.accuracies(path, record, settings.accuracy) for path, record in both.items()]
        targets, evaluation = protocols.targets(settings, mine.split).values(), settings.evaluation
        about = {"scale": mine.scale, "protocol": mine.protocol, "split": mine.split, "seed": str(mine.seed)}
        about |= {"baseline": base.algorithm, "label": experiment.catalog.label(base.algorithm)}
        of_pair = paired.of_pair(*series, targets, evaluation.window, evaluation.smoothing)
        lines += [{**about, **line, "mine_run": mine.path, "baseline_run": base.path} for line in of_pair]
        diverged = {path: record.diverged_at for path, record in both.items() if record.diverged_at is not None}
        notes += [f"{path}: diverged in round {number}" for path, number in diverged.items()]
        notes += [f"{path}: unfinished, {records[path].rounds_done} rounds" for path in both if not records[path].ended]
        precisions = [record.config.precision for record in both.values()]
        if len({*precisions}) > 1:
            notes.append(f"{base.name}: in {precisions[1]}, {options.mine} in {precisions[0]}")
    unused = [f"{folder}: {reason}" for folder, reason in store.refused.items()]
    if not lines:
        problem = f"{options.mine} and the baselines have no runs of one protocol, split and seed with a common round"
        raise DataError("\n".join([problem, *refused, *dict.fromkeys(notes), *unused]))
    table = paired.with_means(pd.DataFrame(lines))
    for (scale, *ids), part in table.groupby(["scale", "protocol", "split"], sort=False):
        label = experiment.catalog.label(options.mine)
        print(f"{'/'.join(ids)}, {scale} scale: {label} minus each baseline\n\n{paired.text(part, label)}\n")
        if part["deviation"].isna().all():
            print(noise(experiment, records[part["baseline_run"].iloc[0]], published))
    units = "Accuracies in percent, differences in points. >N: target not reached in N rounds."
    print("\n".join(dict.fromkeys([units, *notes])))
    if options.out:
        with write_whole(options.out, "w") as file:
            file.write(table.to_csv(index=False, float_format="%.12g"))
    print("".join(f"{line}\n" for line in unused), end="", file=sys.stderr)
    problems = [*refused, ORDER] if refused else []
    if store.damaged:
        problems.append(f"left out as damaged: {', '.join(store.damaged)}")
    if problems:
        raise DataError("\n".join(problems))


def noise(experiment: Experiment, record: RunRecord, published: Store) -> str:
    """Return the note under one seed: how far two seeds of a published row like that of ``record`` lie apart."""
    settings = experiment.catalog.settings(record.config.scale, without_label(record.config.protocol))
    apart = paired.seeds_apart(published.records, record, settings.accuracy, settings.evaluation.window)
    if apart is None:
        return "One seed: no published row tells how far two seeds lie apart. Train a second seed."
    label, points = experiment.catalog.label(apart[0]), written(apart[1], None, "pp")
    return f"One seed: two seeds of {label}, published, lie {points} points apart: one pair, so noise can be larger."
