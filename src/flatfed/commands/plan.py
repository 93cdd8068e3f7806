"""``flatfed plan``.

Prints a line for each table and figure (with the columns of config.yaml) and for their total: shared runs count once.
Hours (sum) and memory (per job) are those of unfinished runs, measured for finished runs here, else for published runs.
  begun     has a checkpoint or an unfinished record; it will resume
  stale     of other settings; it will be trained again
  damaged   run.json is not a record (see stderr); delete it to train the run again
  unknown   without a measurement of its protocol; not in the hours
  disk      of all runs, with the kept models (config.yaml: keep_models)

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

from flatfed.commands import arguments, configuration, plan_measured
from flatfed.commands.arguments import argument, flag
from flatfed.commands.plan_measured import Measurements
from flatfed.commands.plan_needs import Need, needs_of, state
from flatfed.engine.memory.sizes import in_units
from flatfed.plan import Experiment, Requested, Run, lookup
from flatfed.plan.lookup import Entries

#: Columns before and after the hours.
COUNTS = ("cells", "runs", "finished", "begun", "stale", "damaged", "missing", "unknown")
SIZES = {"disk_bytes": "disk", "memory_bytes": "memory", "device_memory_bytes": "GPU memory"}

#: Bytes of a parameter, and typical bytes of a line of metrics.csv and of run.json.
FLOAT, LINE, RECORD = 4, 160, 6000

ARGUMENTS = [
    argument("tables", str, "tables and figures (default: those of config.yaml)", nargs="*", metavar="TABLE|FIGURE"),
    flag("--all", "all tables and figures"),
    arguments.SCALE,
    arguments.CONFIG,
]


def run(options: argparse.Namespace) -> None:
    """Print :func:`forecast` as a table."""
    plan, basis = forecast(options)
    rows = [("", *COUNTS, "hours", *SIZES.values()), *((name, *texts(summary)) for name, summary in plan.items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *columns in rows:
        aligned = (text.rjust(width) for text, width in zip(columns, widths[1:], strict=True))
        print(name.ljust(widths[0]), *aligned, sep="  ")
    print(basis)


def forecast(options: argparse.Namespace) -> tuple[dict[str, dict[str, float]], str]:
    """Return the costs of each table and figure and of their total, and a line about the measurements.

    Reports damaged records on stderr; ConfigError if there is no such table or figure.
    """
    experiment = configuration.load(options.config)
    scale = options.scale or experiment.scale_of(options.tables)
    needs = needs_of(experiment, scale, requested(experiment, scale, options.tables, options.all))
    total = functools.reduce(operator.or_, needs.values(), Need())
    measurements, left_out = plan_measured.measured(experiment, scale)
    absent = [] if options.tables or options.all else experiment.left_out(scale, experiment.requested)
    for line in [*left_out, *absent]:
        print(line, file=sys.stderr)
    states = {path: state(run, path in total.analysed) for path, run in total.runs.items()}
    kept = total.runs if experiment.request.keep_models == "all" else total.analysed
    plan = {name: summarise(need, states, measurements, kept) for name, need in {**needs, "total": total}.items()}
    machines = sorted({past.machine for run in total.runs.values() for past in measurements.nearest(run)})
    return plan, f"{scale} scale, {measurements.device}: by {', '.join(machines) or 'nothing'}"


def summarise(
    need: Need, states: Mapping[str, str], measurements: Measurements, kept: Collection[str]
) -> dict[str, float]:
    """Return the costs of ``need``: seconds (sum) and memory (maximum) of unfinished runs, disk bytes of all.

    ``states``: path of a run -> state; ``kept``: paths of runs that keep their model.
    """
    sums = Counter({**dict.fromkeys((*COUNTS, *SIZES, "seconds"), 0), "cells": need.cells, "runs": len(need.runs)})
    for path, run in need.runs.items():
        sums.update({states[path]: 1, "disk_bytes": _disk(run, path in kept)})
    for run in (run for path, run in need.runs.items() if states[path] != "finished"):
        seconds, memory = measurements.seconds(run), measurements.memory(run)
        sums.update(seconds=run.config.rounds * (seconds or 0.0), unknown=seconds is None)
        for key, size in zip(("memory_bytes", "device_memory_bytes"), memory, strict=True):
            sums[key] = max(sums[key], size)
    return dict(sums)


def texts(summary: Mapping[str, float]) -> list[str]:
    hours = f"{summary['seconds'] / 3600:,.2f}" if summary["seconds"] else "-"
    sizes = [in_units(summary[key]) if summary[key] else "-" for key in SIZES]
    return [*(str(summary[key]) for key in COUNTS), hours, *sizes]


def _disk(run: Run, model: bool) -> int:
    """Return the bytes of a finished run's folder, with or without its ``model``."""
    config = run.config
    rest = round(LINE * config.rounds / config.evaluation.every) + RECORD
    if not model:
        return rest
    data, options = config.dataset, json.dumps(config.model.options, sort_keys=True)
    return rest + FLOAT * _parameters(config.model.name, options, tuple(data.shape), data.classes)


@functools.cache
def _parameters(name: str, options: str, shape: tuple[int, ...], classes: int) -> int:
    import torch

    from flatfed import models

    with torch.device("meta"):
        model = models.build(name, shape, classes, json.loads(options))
        return sum(parameter.numel() for parameter in model.parameters())


def requested(experiment: Experiment, scale: str, names: list[str], all_of_them: bool) -> Requested:
    """Return the tables, with columns, and figures ``names``; without names those of config.yaml, or all."""
    tables, figures = experiment.tables, experiment.figures
    for name in names:
        lookup.check("table or figure", name, Entries({**tables, **figures}, tables.refused | figures.refused), "plan")
    if not names:
        if all_of_them:
            return experiment.all_at(scale)
        return experiment.existing(scale, experiment.requested)
    with_columns = experiment.with_columns(name for name in names if name in tables)
    return Requested(with_columns, [name for name in dict.fromkeys(names) if name in figures])
