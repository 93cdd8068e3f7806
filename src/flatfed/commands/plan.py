"""``flatfed plan``.

Prints a line for each table and figure (with the columns of config.yaml; one line if they share a name) and for their
total: shared runs count once.
Hours (sum, on a CPU and on a GPU), memory (per job) and disk (models) are those of unfinished runs. Hours are the mean
of runs of the same protocol, by the share of the clients in a round: if possible of the algorithm, else per gradient
of a local step; and of runs here instead of published ones. Memory is that of runs of algorithm and model in a
variant of the protocol, else that of these runs.
  begun     has a checkpoint or an unfinished record; it will resume, or begin again if it has no checkpoint
  stale     of other settings or versions; it will be trained again
  damaged   run.json is not a record (see stderr); delete it to train the run again
  unknown   without a measurement of its protocol on the device of config.yaml; not in its hours
Below, a line for each run of `published` that serves.

example:
  flatfed plan fedsmoo2023_T1 fedsmoo2023_T6 --scale paper
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
from pathlib import Path

import pandas as pd

from flatfed import algorithms, gpus, models
from flatfed.commands import arguments, configuration
from flatfed.commands.arguments import argument, flag
from flatfed.engine.job.progress import in_units
from flatfed.plan import Experiment, Requested, Run, at_scale, lookup
from flatfed.plan.number import by_cell, runs_of
from flatfed.plan.numbers import numbers
from flatfed.runs.paths import without_label
from flatfed.runs.record import RunRecord
from flatfed.runs.run_config import RunConfig
from flatfed.runs.store import Store, state
from flatfed.tables.readings import chip

PUBLISHED = configuration.HOME / "results/published"

#: Columns of numbers of runs, and of all numbers of runs: their sum or, as jobs share no memory, the largest.
COUNTS = ("runs", "finished", "begun", "stale", "damaged", "missing", "unknown")
HOURS = {"cpu": "CPU hours", "cuda": "GPU hours"}
COSTS = {**dict.fromkeys((*COUNTS, *HOURS.values(), "disk"), "sum"), "memory": "max", "GPU memory": "max"}

FLOAT = 4  # bytes

ARGUMENTS = [
    argument("tables", str, "tables and figures (default: those of config.yaml)", nargs="*", metavar="TABLE|FIGURE"),
    flag("--all", "all tables and figures"),
    arguments.SCALE,
    arguments.CONFIG,
]


def run(options: argparse.Namespace) -> None:
    """Print :func:`forecast` as a table."""
    plan, basis = forecast(options)
    texts = dict.fromkeys(("cells", *COUNTS), " {:.0f}".format)
    texts |= dict.fromkeys(("disk", "memory", "GPU memory"), lambda size: f" {in_units(size)}" if size else "-")
    texts |= dict.fromkeys(HOURS.values(), lambda hours: f" {hours:,.2f}" if hours else "-")
    print(plan.to_string(formatters=texts, header=[f" {name}" for name in plan]))
    print(basis)


def forecast(options: argparse.Namespace) -> tuple[pd.DataFrame, str]:
    """Return cells and costs (hours, bytes) of each table and figure and of their total, and their basis in words.

    Reports unused and damaged records on stderr; ConfigError if there is no such table or figure.
    """
    experiment = configuration.load(options.config)
    scale, device = options.scale or experiment.scale_of(options.tables), gpus.resolve(experiment.request.device)
    of_names = runs_by_name(experiment, scale, requested(experiment, scale, options))
    store = Store([f"{experiment.paths.results}/{scale}/runs", PUBLISHED], alone=True, so_far=True)
    measured = measurements(store, scale)
    absent = [] if options.tables or options.all else experiment.left_out(scale, experiment.requested)
    every = {path: run for _, runs in of_names.values() for path, run in runs.items()}
    refused = experiment.store.refused.items()  # other reasons are printed
    unused = [f"{path}: {reason}" for path, reason in refused if path not in every and reason.startswith("not used")]
    print("".join(f"{line}\n" for line in [*store.refused.values(), *absent, *unused]), end="", file=sys.stderr)
    kinds = {_kind(run): run for run in every.values()}
    near = {kind: nearest(*kind[:2], measured) for kind in kinds}
    rates = {kind: per_round(kinds[kind], of_kind, measured, device) for kind, of_kind in near.items()}
    # A user's model may have changed, or have frozen parameters, which records do not count.
    records = [record for record in store.records.values() if not models.own_file(record.config.model.name)]
    sizes = {_model(record.config): record.parameters for record in records}
    costs = {path: run_costs(run, rates[_kind(run)], sizes) for path, run in every.items()}
    by_run = pd.DataFrame.from_dict(costs, "index", float, list(COSTS))
    rows = {name: {"cells": cells, **by_run.loc[list(runs)].agg(COSTS)} for name, (cells, runs) in of_names.items()}
    rows["total"] = {"cells": sum(cells for cells, _ in of_names.values()), **by_run.agg(COSTS)}
    machines = sorted({machine for of_kind in near.values() for machine in of_kind["machine"]})
    mean = "; algorithms without a run: the mean of their protocol's runs per gradient"
    basis = f"by {', '.join(machines)}{mean}" if machines else "no finished run gives hours"
    served = {path: record for path, record in experiment.store.records.items() if path in every}
    lines = [f"published: {path}: {record.config.precision}, {chip(record)}" for path, record in served.items()]
    basis = "\n".join([f"{scale} scale, {device}: {basis}", *lines])
    return pd.DataFrame.from_dict(rows, "index").fillna(0), basis


def runs_by_name(experiment: Experiment, scale: str, shown: Requested) -> dict[str, tuple[int, dict[str, Run]]]:
    """Return the number of cells and the runs by folder of each table and figure, of both if they share a name."""
    tables = {name: numbers(experiment, scale, name, columns) for name, columns in shown.tables.items()}
    figures = {name: at_scale.figure(experiment, scale, name).runs for name in shown.figures}
    parts = {name: (tables.get(name, []), figures.get(name, {})) for name in [*tables, *figures]}
    return {name: (len(by_cell(of_table)), runs_of(of_table) | drawn) for name, (of_table, drawn) in parts.items()}


def _kind(run: Run) -> tuple[str, str, float]:
    return run.protocol, run.config.update.name, _participation(run.config)


def _gradients(record: RunRecord) -> float:
    """Return the gradients of a local step, by the class of the algorithm if an early record does not count them."""
    if record.gradient_evaluations and record.local_steps:
        return record.gradient_evaluations / record.local_steps
    name = record.config.update.name
    return algorithms.load(name).gradients_per_step if name in algorithms.names() else 1


def _participation(config: RunConfig) -> float:
    """Return the expected share of the clients in a round; NaN if all images are at one place."""
    return math.nan if config.partition.scheme == "central" else config.sampling.fraction


def per_round(run: Run, near: pd.DataFrame, measured: pd.DataFrame, device: str) -> dict[str, float]:
    """Return the hours of a round of ``run`` on each device, and bytes or "unknown" on ``device``.

    ``near``: :func:`nearest` of ``measured``, which has the memory of the algorithm in variants of the protocol, too.
    """
    algorithm = run.config.update.name
    seconds = near["seconds"] / near["gradients"] * algorithms.load(algorithm).gradients_per_step
    seconds *= (_participation(run.config) / near["participation"]).fillna(1)
    hours = (seconds.groupby(near["device"]).mean() / 3600).rename(HOURS).to_dict()
    here = near[near["device"] == device]
    if here.empty:
        return {**hours, "unknown": 1}
    variants = measured["protocol"].map(without_label) == without_label(run.protocol)
    alike = variants & (measured["algorithm"] == algorithm) & (measured["model"] == _model(run.config))
    same = measured[alike & (measured["device"] == device)]
    return hours | (here if same.empty else same)[["memory", "GPU memory"]].max().to_dict()


def run_costs(run: Run, rates: dict[str, float], sizes: dict[str, int | None]) -> dict[str, float]:
    """Return the ``COSTS`` of a ``run``, by the ``rates`` of its kind (:func:`per_round`) if it is unfinished.

    ``sizes``: number of parameters of known models (:func:`_model`); others are built.
    """
    if (present := state(run)) == "finished":
        return {"runs": 1, present: 1}
    model = _model(run.config)
    costs = {"runs": 1, present: 1, "disk": FLOAT * (sizes.get(model) or _parameters(model))}
    return costs | {key: rate * run.config.rounds if key in HOURS.values() else rate for key, rate in rates.items()}


def _model(config: RunConfig) -> str:
    """Return name, shape of an image, classes and options as JSON."""
    model, data = config.model, config.dataset
    return json.dumps([model.name, data.shape, data.classes, model.options], sort_keys=True)


@functools.cache
def _parameters(model: str) -> int:
    """Return the number of parameters of a ``model`` (:func:`_model`)."""
    import torch

    name, shape, classes, options = json.loads(model)
    with torch.device("cpu" if models.own_file(name) else "meta"):
        module = models.build(name, tuple(shape), classes, options)
    return sum(parameter.numel() for parameter in module.parameters())


def requested(experiment: Experiment, scale: str, options: argparse.Namespace) -> Requested:
    """Return the tables, with columns, and figures of the call; without names those of config.yaml, or all."""
    tables, figures, names = experiment.tables, experiment.figures, options.tables
    if not names:
        return experiment.all_at(scale) if options.all else experiment.existing(scale, experiment.requested)
    for name in names:
        lookup.check("table or figure", name, {**tables, **figures}, "plan")
    with_columns = experiment.with_columns(name for name in names if name in tables)
    return Requested(with_columns, [name for name in dict.fromkeys(names) if name in figures])


def measurements(store: Store, scale: str) -> pd.DataFrame:
    """Return device, seconds per round, their causes and peak bytes of the runs at a ``scale``."""
    rows = [
        {
            "device": record.device,
            "protocol": record.config.protocol,
            "algorithm": record.config.update.name,
            "seconds": record.seconds / record.rounds_done,
            "participation": _participation(record.config),
            "gradients": _gradients(record),
            "model": _model(record.config),
            "memory": record.peak_memory_bytes,
            "GPU memory": record.peak_device_memory_bytes,
            "published": (published := Path(folder).is_relative_to(PUBLISHED)),
            "machine": (chip(record) or "unnamed machine") + " (published)" * published,
        }
        for folder, record in store.records.items()
        # NaN may be slow
        if record.diverged_at is None and record.rounds_done and record.seconds and record.host
        if record.config.scale == scale
    ]
    names = ["device", "protocol", "algorithm", "seconds", "participation", "gradients", "model"]
    return pd.DataFrame(rows, columns=[*names, "memory", "GPU memory", "published", "machine"])


def nearest(protocol: str, algorithm: str, measured: pd.DataFrame) -> pd.DataFrame:
    """Return the measurements of a ``protocol``: on each device if possible of the ``algorithm``, and of runs here."""
    of_protocol, devices = measured[measured["protocol"] == protocol], []
    for _, near in of_protocol.groupby("device"):
        for similar in (near["algorithm"] == algorithm, ~near["published"]):
            near = near[similar.loc[near.index]] if similar.loc[near.index].any() else near
        devices.append(near)
    return pd.concat(devices) if devices else of_protocol
