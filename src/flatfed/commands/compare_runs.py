"""``flatfed compare``.

Prints the differences between your method and baselines per protocol, split and seed, from metrics.csv and run.json of
the runs in folders: the mean of all common rounds, the number of a table at the last common round, and the rounds to
each target of the protocol. Three seeds or more: with a 95 % interval of the mean difference (Student's t). Runs that
still train count, too: a training writes its lines with each checkpoint, or every 30 seconds. Runs of a pair have the
same data and partition; others are refused. The CSV has fractions.

example:
  python -m flatfed compare fedsmoo fedavg fedsam --runs results/published/fedsmoo-cifar10/runs --out comparison
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import pandas as pd

from flatfed.commands import arguments, configuration, run_folders
from flatfed.commands.arguments import argument, required
from flatfed.config.figure import FigureDocument, Smooth
from flatfed.engine import versions
from flatfed.errors import DataError
from flatfed.files import write_whole
from flatfed.plan import SCALES, Experiment, lookup, protocols, set_ups
from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import Mark, Panel
from flatfed.plan.number import Number, by_cell
from flatfed.runs.paths import RunIds
from flatfed.runs.record import ORDER, read_again
from flatfed.runs.run import Run
from flatfed.tables import notes, paired
from flatfed.tables.readings import RunReading, read_all, rounding

ARGUMENTS = [
    argument("mine", str, "your method, the id of an algorithm", metavar="MINE"),
    argument("baselines", str, "the methods to compare with", nargs="+", metavar="BASELINE"),
    required("--runs", arguments.folder, "folders with runs of these methods", nargs="+", metavar="FOLDER"),
    argument("--out", arguments.folder, "folder for compare.txt, compare.csv and curves.png (default: print the text)"),
    arguments.CONFIG,
]


def run(options: argparse.Namespace) -> None:
    """Print and write the comparison; DataError if there is no pair or, after that, if a pair is refused."""
    experiment = configuration.load(options.config)
    methods = list(dict.fromkeys([options.mine, *options.baselines]))
    for name in methods:
        lookup.check_algorithm(name, experiment.catalog.algorithms, "compare")
    runs, refused, unused = _runs(experiment, methods, options.runs)
    pairs = _pairs(experiment, methods, runs)
    read = read_all(lambda pair: paired.of_pair(*pair), pairs)
    lines = pd.DataFrame([line for of_pair, _ in read for line in of_pair])
    if lines.empty:
        problem = f"{methods[0]} and the baselines have no runs of one protocol, split and seed with a common round"
        hint = "a training writes its first lines with a checkpoint, or after 30 seconds"
        raise DataError("\n".join([f"{problem} ({hint})", *refused, *unused]))
    unused += [f"no run of {name} to compare with" for name in methods[1:] if name not in {*lines["baseline"]}]
    lines, labels = paired.with_intervals(lines), {name: experiment.catalog.label(name) for name in methods}
    title = f"{lines['scale'][0]} scale: {labels[methods[0]]} minus each baseline"
    settings = lines.groupby(["protocol", "split"], sort=False)
    grids = [f"{'/'.join(ids)}, {title}\n\n{paired.text(part, labels)}\n" for ids, part in settings]
    numbers = [number for (number, _), (of_pair, _) in zip(pairs, read, strict=True) if of_pair]
    texts = _notes(numbers, [reading for _, readings in read for reading in readings])
    text = "\n".join([*grids, *_seeds(experiment, methods, runs, numbers), *texts]) + "\n"
    print(text, end="")
    if options.out:
        for ending, content in (("txt", text), ("csv", lines.to_csv(index=False, float_format="%.12g"))):
            with write_whole(options.out / f"compare.{ending}", "w") as file:
                file.write(content)
        from flatfed import figures  # imports matplotlib

        spec = _figure(experiment, methods, numbers, lines)
        read_again(partial(figures.make, spec, options.out), so_far=True)
    for line in unused:
        print(line, file=sys.stderr)
    if refused:
        raise DataError("\n".join([*refused, ORDER]))


def _runs(
    experiment: Experiment, methods: Sequence[str], folders: Sequence[Path]
) -> tuple[dict[RunIds, Run], list[str], list[str]]:
    """Return the runs by ids, with the protocol's without bfloat16, and lines on refused and on unused runs.

    The scale is the paper's if the first method has a run at it. Its runs decide the data. A method has the precision
    of most of its seeds.
    """
    records, refused = run_folders.records_in(folders, so_far=True)
    records = {path: record for path, record in records.items() if record.config.algorithm in methods}
    scales = [record.config.scale for record in records.values() if record.config.algorithm == methods[0]]
    paths = [path for path, record in records.items() if record.config.scale == min(scales, default="")]
    paths.sort(key=lambda path: records[path].config.algorithm != methods[0])
    ids = {path: run_folders.plain(records[path].config.ids) for path in paths}
    selected, left_out = run_folders.select({path: records[path] for path in paths}, experiment, {*ids.values()})
    rows: dict[str, dict[str, list[Run]]] = {}
    for run in selected.values():
        rows.setdefault(ids[run.path].row, {}).setdefault(run.protocol, []).append(run)
    runs: dict[RunIds, Run] = {}
    unused: list[str] = []
    for precisions in rows.values():
        shown, *others = sorted(precisions.values(), key=len, reverse=True)
        runs |= {ids[run.path]: run for run in shown}
        unused += [f"{run.path}: not used: its method has runs in another precision" for run in chain(*others)]
    lines = {path: f"{path}: {reason}" for path, reason in left_out.items()}
    unpaired = [line for path, line in lines.items() if ids[path] not in runs]
    return runs, unpaired, [*unused, *(lines[path] for path in lines if ids[path] in runs), *refused.values()]


def _pairs(
    experiment: Experiment, methods: Sequence[str], runs: Mapping[RunIds, Run]
) -> list[tuple[Number, Collection[float]]]:
    """Return the pairs of runs, each as the accuracy of its protocol's targets, and these targets."""
    pairs = []
    mine = sorted((ids for ids in runs if ids.algorithm == methods[0]), key=lambda ids: (ids.row, ids.seed))
    for ids, name in ((ids, name) for name in methods[1:] for ids in mine):
        settings = experiment.catalog.settings(ids.scale, ids.protocol)
        about = {"column": f"{ids.protocol}/{ids.split}", "row": ids.algorithm, "scale": ids.scale, "seed": ids.seed}
        about |= settings.evaluation.model_dump(include={"window", "smoothing"})
        about |= {"metric": settings.accuracy, "accuracy": settings.accuracy, "rounds": settings.rounds}
        if base := runs.get(replace(ids, algorithm=name)):
            about |= {"runs": (runs[ids],), "base": name, "base_runs": (base,)}
            number = Number(table="compare", unit="percent", **about)
            pairs.append((number, protocols.targets(settings, ids.split).values()))
    return pairs


def _seeds(
    experiment: Experiment, methods: Sequence[str], runs: Collection[RunIds], numbers: Sequence[Number]
) -> Iterator[str]:
    """Yield the compared seeds of each baseline, and those that are requested or trained, but not compared."""
    for column in dict.fromkeys(number.column for number in numbers):
        protocol = column.partition("/")[0]
        for name in methods[1:]:
            compared = {number.seed for number in numbers if (number.column, number.base) == (column, name)}
            rows = {f"{column}/{methods[0]}", f"{column}/{name}"}
            seeds = {ids.seed for ids in runs if ids.row in rows} | {*experiment.seeds(numbers[0].scale, protocol)}
            absent = ", ".join(map(str, sorted(seeds - compared)))
            text = f"{column}, {name}: seeds {', '.join(map(str, sorted(compared))) or 'none'}"
            yield f"{text}; missing: {absent}." if absent else f"{text}."


def _notes(numbers: Sequence[Number], readings: Sequence[RunReading]) -> list[str]:
    """Return the lines under the numbers; DataError if seeds of a method were trained by different code."""
    records = {reading.record.name: reading.record for reading in readings}
    versions.check_same(records.values(), "compare")
    texts = ["Accuracies in percent, differences in points. >N: a target that was not reached in N rounds."]
    texts += notes.definitions([replace(number, metric="rounds_to_target") for number in numbers])
    texts += notes.roundings({name: rounding(record) for name, record in records.items()})
    texts += dict.fromkeys(f"{reading.problem}." for reading in readings if reading.problem)
    remarks = {name: versions.remarks(record) for name, record in records.items()}
    return [*texts, *(f"{name}: {text}." for name, text in remarks.items() if text)]


def _figure(
    experiment: Experiment, methods: Sequence[str], numbers: Sequence[Number], lines: pd.DataFrame
) -> ShownFigure:
    """Return the curves, a panel per protocol and split; of several seeds, those with the latest common round."""
    catalog, scale = experiment.catalog, numbers[0].scale
    latest = lines.groupby(["protocol", "split", "baseline"])["last_round"].transform("max") == lines["last_round"]
    shown = {*lines[latest]["mine_run"], *lines[latest]["baseline_run"]}
    runs = {run.path: (number, run) for number in numbers for run in number.all_runs if run.path in shown}
    of_runs = [replace(number, row=run.algorithm, runs=(run,), base_runs=()) for number, run in runs.values()]
    marks: dict[str, list[Mark]] = {}
    for (column, name), of_method in by_cell(of_runs).items():
        protocol, split = column.split("/")
        mark = Mark(label=catalog.label(name), protocol=protocol, splits=(split,), algorithm=name, numbers=of_method)
        marks.setdefault(column, []).append(mark)
    panels = [Panel(title=name, marks=of_name, metric=of_name[0].numbers[0].metric) for name, of_name in marks.items()]
    pairs, title = [panel.marks[0].pairs[0] for panel in panels], f"{catalog.label(methods[0])} and its baselines"
    smooth = Smooth(**dict.fromkeys(SCALES, max(number.smoothing for number in numbers)))
    return ShownFigure(
        id="curves",
        document=FigureDocument.model_construct(kind="curves", title=title, smooth=smooth),
        panels=panels,
        scale=scale,
        title=set_ups.prefix(catalog, scale, pairs) + title,
        setting=set_ups.setting(catalog, scale, pairs),
        datasets=set_ups.datasets(experiment, scale, pairs),
        so_far=True,
        highlight=methods[0],
    )
