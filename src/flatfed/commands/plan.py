"""``flatfed plan``: what tables and figures need and what it will cost, before anything runs.

A line for each, and for all together (what several share counts once). A table has the columns that
config.yaml names of it, all where it names none, or with --all. Costs are those of what is not finished:
hours and memory of one job as finished runs here took it, or, if there are none, published ones.
  finished  there          begun    has a checkpoint or an unfinished record, and goes on
  stale     made from another description than the configuration's: it will be made again
  damaged   its run.json is no record; it is named on stderr, and made again when it is deleted
  unknown   runs whose protocol was never measured, which no hours count
  disk      of all runs, with the models that are kept (config.yaml: keep_models)

example:
  python -m flatfed plan fedsmoo2023_T1 fedsmoo2023_T6 --scale paper
"""

from __future__ import annotations

import argparse
import functools
import json
import operator
import sys
from collections import Counter
from collections.abc import Collection, Mapping

from flatfed.commands import arguments, configuration, kinds, plan_measured
from flatfed.commands.arguments import argument, flag
from flatfed.commands.plan_measured import Measurements
from flatfed.commands.plan_needs import Need, needs_of, state
from flatfed.engine.memory.sizes import in_units
from flatfed.experiment import Experiment, Requested, Run, lookup, scales, selection
from flatfed.experiment.lookup import Entries
from flatfed.files import write_json

#: Numbers of a table or figure in the order of the columns: counts, and after the hours bytes.
COUNTS = ("cells", "runs", "finished", "begun", "stale", "damaged", "missing", "unknown")
SIZES = {"disk_bytes": "disk", "memory_bytes": "memory", "device_memory_bytes": "GPU memory"}

#: Bytes of a number of a model (float32), and about those of a line of metrics.csv and of a run.json.
FLOAT, LINE, RECORD = 4, 160, 6000

ARGUMENTS = [
    argument("tables", str, "their ids (default: the configuration's)", nargs="*", metavar="TABLE|FIGURE"),
    flag("--all", "all tables and figures"),
    argument("--json", kinds.file, "write the numbers as JSON, too"),
    arguments.SCALE,
    arguments.CONFIG,
]


def run(options: argparse.Namespace) -> None:
    """Print what tables and figures need and what that costs.

    A record that is damaged is named on stderr; nothing is estimated from it, and its run counts as damaged.

    :raises ConfigError: there is no such table or figure.
    """
    experiment = configuration.load(options.config)
    scale = options.scale or selection.scale_of(experiment, options.tables)
    needs = needs_of(experiment, scale, asked_for(experiment, scale, options.tables, options.all))
    total = functools.reduce(operator.or_, needs.values(), Need())
    measurements, left_out = plan_measured.measured(experiment, scale)
    absent = [] if options.tables or options.all else scales.left_out(experiment, scale, experiment.requested)
    for line in [*left_out, *absent]:
        print(line, file=sys.stderr)
    states = {path: state(run, path in total.analysed) for path, run in total.runs.items()}
    kept = total.runs if experiment.config.get("keep_models") == "all" else total.analysed
    plan = {name: summarise(need, states, measurements, kept) for name, need in {**needs, "total": total}.items()}
    rows = [("", *COUNTS, "hours", *SIZES.values()), *((name, *texts(summary)) for name, summary in plan.items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *columns in rows:
        texts_of_width = (text.rjust(width) for text, width in zip(columns, widths[1:], strict=True))
        print(name.ljust(widths[0]), *texts_of_width, sep="  ")
    machines = sorted({past.machine for run in total.runs.values() for past in measurements.nearest(run)})
    print(f"{scale} scale, {measurements.device}: by {', '.join(machines) or 'nothing'}")
    if options.json is not None:
        write_json(options.json, {"scale": scale, "machines": machines, "plan": plan})


def summarise(
    need: Need, states: Mapping[str, str], measurements: Measurements, kept: Collection[str]
) -> dict[str, float]:
    """Return the costs of ``need`` as JSON has them; ``states`` are those of its runs by path, ``kept`` their models.

    ``seconds`` and memory are those of runs that are not finished: of seconds the sum, ``unknown`` runs left out, of
    memory that of the largest, other algorithms' left out. ``disk_bytes`` are those of all runs.
    """
    sums = Counter({**dict.fromkeys((*COUNTS, *SIZES, "seconds"), 0), "cells": need.cells, "runs": len(need.runs)})
    for path, run in need.runs.items():
        sums.update({states[path]: 1, "disk_bytes": _disk(run, path in kept)})
    for run in (run for path, run in need.runs.items() if states[path] != "finished"):
        seconds, memory = measurements.seconds(run), measurements.memory(run)
        sums.update(seconds=run.description["rounds"] * (seconds or 0.0), unknown=seconds is None)
        for key, size in zip(("memory_bytes", "device_memory_bytes"), memory, strict=True):
            sums[key] = max(sums[key], size)
    return dict(sums)


def texts(summary: Mapping[str, float]) -> list[str]:
    """Return the texts of the columns; "-" for costs that are not known."""
    hours = f"{summary['seconds'] / 3600:,.2f}" if summary["seconds"] else "-"
    sizes = [in_units(summary[key]) if summary[key] else "-" for key in SIZES]
    return [*(str(summary[key]) for key in COUNTS), hours, *sizes]


def _disk(run: Run, model: bool) -> int:
    """Return the bytes of a finished run's folder, with its ``model`` or without."""
    about = run.description
    rest = round(LINE * about["rounds"] / about["evaluation"]["every"]) + RECORD
    if not model:
        return rest
    data, options = about["dataset"], json.dumps(about["model"]["options"], sort_keys=True)
    return rest + FLOAT * _parameters(about["model"]["name"], options, tuple(data["shape"]), data["classes"])


@functools.cache
def _parameters(name: str, options: str, shape: tuple[int, ...], classes: int) -> int:
    """Return the number of parameters of a model."""
    import torch

    from flatfed import models

    with torch.device("meta"):
        return sum(each.numel() for each in models.build(name, shape, classes, json.loads(options)).parameters())


def asked_for(experiment: Experiment, scale: str, names: list[str], every: bool) -> Requested:
    """Return the tables, with their columns, and the figures that ``names`` are of.

    Without names they are those that config.yaml asks for at ``scale``, or all there are if ``every`` is true.

    :raises ConfigError: a name is neither a table's nor a figure's.
    """
    tables, figures = experiment.tables, experiment.figures
    for name in names:
        lookup.check("table or figure", name, Entries({**tables, **figures}, tables.refused | figures.refused), "plan")
    if not names:
        return scales.all_at(experiment, scale) if every else scales.existing(experiment, scale, experiment.requested)
    asked = selection.with_columns(experiment, [name for name in dict.fromkeys(names) if name in tables])
    return Requested(asked, [name for name in dict.fromkeys(names) if name in figures])
