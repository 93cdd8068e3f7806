"""``flatfed plan``: what tables and figures need and what it will cost, before anything runs."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from flatfed import forms
from flatfed.commands import arguments, configuration, kinds, plan_measured, time_run
from flatfed.commands.plan_measured import Measurements
from flatfed.commands.plan_needs import Need, joined, needs_of, state
from flatfed.engine.memory.sizes import in_units
from flatfed.experiment import Asked, AskedTable, Experiment, Run, cell_specs, known, scales, selection
from flatfed.experiment.known import Entries
from flatfed.files import write_json
from flatfed.workflow.requests import Measured

#: States of runs (:func:`flatfed.commands.plan_needs.state`) that are there and not finished.
THERE = ("begun", "stale", "damaged")

#: Bytes of a number of a model (float32), and about those of a line of metrics.csv and of a run.json.
FLOAT, LINE, RECORD = 4, 160, 6000

DETAIL = """\
For each, and for all together (a run that several share counts once): runs to make and runs there;
hours and memory, measured on this kind of device by runs of the same protocol: hours of the same algorithm
or, if there are none, of others; finished runs here or, if there are none, published ones; disk. A table has
the columns that config.yaml names of it, all where it names none, or with --all.
  there    finished        begun    has a checkpoint or an unfinished record, and goes on
  stale    made from another description than the configuration's: it will be made again
  damaged  its run.json is no record; it is named on stderr, and made again when it is deleted"""
EXAMPLE = "python -m flatfed plan fedsmoo2023_T1 fedsmoo2023_T6 --scale paper"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    sub.add_argument("tables", nargs="*", metavar="TABLE|FIGURE", help="their ids (default: the configuration's)")
    sub.add_argument("--all", action="store_true", help="all tables and figures")
    sub.add_argument("--scale", choices=("preview", "paper"), help="the scale (default: the configuration's)")
    sub.add_argument("--cells", action="store_true", help="list the cells, table/column/row, instead")
    sub.add_argument("--tuning", action="store_true", help="count the runs that `snakemake tuning` makes, instead")
    sub.add_argument(
        "--keep-models",
        choices=("all", "needed"),
        help="count the disk of all models, or of those that an analysis reads (default: keep_models of config.yaml)",
    )
    sub.add_argument("--json", type=kinds.file, metavar="FILE", help="write the numbers as JSON, too")
    arguments.add_config(sub)


def run(options: argparse.Namespace) -> None:
    """Print what tables and figures need and what that costs.

    A record that is damaged is named on stderr; nothing is estimated from it, and its run counts as damaged.

    :raises ConfigError: there is no such table or figure.
    """
    experiment = configuration.load(options.config)
    scale = options.scale or selection.scale_of(experiment, options.tables)
    tables, figures = asked_for(experiment, scale, options.tables, options.all)
    if options.cells:
        print_cells(experiment, scale, tables)
        return
    needs = needs_of(experiment, scale, tables, figures, options.tuning)
    total = joined(needs.values())
    known, left_out = plan_measured.measured(experiment, scale)
    absent = [] if options.tables or options.all else scales.left_out(experiment, scale, experiment.asked)
    for line in [*left_out, *absent]:
        print(line, file=sys.stderr)
    keep_models = "needed" if options.tuning else options.keep_models or experiment.config.get("keep_models", "needed")
    states = {path: state(run, path in total.analysed) for path, run in total.runs.items()}
    parts = {name: summarise(need, states, known, keep_models) for name, need in needs.items()}
    whole = summarise(total, states, known, keep_models)
    titled = {f"{name}, {scale} scale": part for name, part in parts.items()}
    for title, summary in [*titled.items(), *([("total", whole)] if len(parts) > 1 else [])]:
        print("\n".join(lines(f"{title}, tuning" if options.tuning else title, summary, known.device)))
    if options.json is not None:
        asked = forms.plain(requests(total.runs.values(), known))
        about = {"scale": scale, "device": known.device, "requests": asked}
        write_json(options.json, {**about, "plan": {**parts, "total": whole}})


def print_cells(experiment: Experiment, scale: str, tables: list[AskedTable]) -> None:
    """Print the cells of ``tables``, table/column/row, with the numbers of their runs."""
    for name, columns in tables:
        for cell in cell_specs.cells(experiment, scale, name, columns):
            unfinished = sum(state(run) != "finished" for run in cell.runs)
            print(f"{name}/{cell.column}/{cell.row}  {len(cell.runs)} runs, {unfinished} to make")


def requests(runs: Iterable[Run], known: Measurements) -> dict[str, Measured]:
    """Return the minutes of the longest run of each protocol, and the memory of its largest.

    A protocol with an algorithm that was not measured is left out: its jobs ask for the guesses.
    """
    protocols = defaultdict(list)
    for run in runs:
        minutes = run.description["rounds"] * (known.seconds(run) or 0.0) / 60
        protocols[run.protocol].append(Measured(minutes=round(minutes, 2), memory_bytes=known.memory(run)[0]))
    return {
        protocol: Measured(
            minutes=max(each.minutes for each in every), memory_bytes=max(each.memory_bytes for each in every)
        )
        for protocol, every in protocols.items()
        if all(each.memory_bytes for each in every)
    }


def summarise(need: Need, states: Mapping[str, str], known: Measurements, keep_models: str) -> dict[str, Any]:
    """Return the costs of ``need`` as JSON has them; ``states`` are those of its runs by path.

    ``seconds`` are those of runs that are not finished and of timings that are not there, measured on ``machines``:
    ``other_algorithm`` of them by other algorithms of their protocol, and ``not_measured`` of them left out.
    ``disk_bytes`` of all runs but ``disk_unknown``, with so many ``models`` kept (``keep_models``: "all" or "needed").
    Memory is that of the run that took most, those of other algorithms left out.
    """
    waiting = [run for path, run in need.runs.items() if states[path] != "finished"]
    untimed = [run for path, run in need.timings.items() if not Path(path).exists()]
    rounds = [run.description["rounds"] for run in waiting] + [time_run.WARM_UP + time_run.ROUNDS] * len(untimed)
    to_make = [*waiting, *untimed]
    near = [(run, known.nearest(run)) for run in to_make]
    paces = [known.seconds(run) for run in to_make]
    memory = [of for run in to_make if any(of := known.memory(run))]
    kept = need.runs if keep_models == "all" else need.analysed
    disk = [_disk(run, path in kept) for path, run in need.runs.items()]
    by_state = Counter(states[path] for path in need.runs)
    return {
        "cells": need.cells,
        "runs": len(need.runs),
        **{state: by_state[state] for state in ("finished", *THERE, "missing")},
        "timings": len(untimed),
        "seconds": round(sum(count * pace for count, pace in zip(rounds, paces, strict=True) if pace), 1),
        "other_algorithm": sum(not of[0].is_of_algorithm(run) for run, of in near if of),
        "not_measured": paces.count(None),
        "machines": sorted({past.where for _, of in near for past in of}),
        "disk_bytes": sum(size or 0 for size in disk),
        "disk_unknown": disk.count(None),
        "models": len(kept),
        "host_memory_bytes": max((host for host, _ in memory), default=0),
        "device_memory_bytes": max((device for _, device in memory), default=0),
    }


def _disk(run: Run, model: bool) -> int | None:
    """Return the bytes of a finished run's folder, with its ``model`` or without; None where that is unknown."""
    about = run.description
    rest = round(LINE * about["rounds"] / about["evaluation"]["every"]) + RECORD
    if not model:
        return rest
    data, options = about["dataset"], json.dumps(about["model"]["options"], sort_keys=True)
    size = _parameters(about["model"]["name"], options, tuple(data["shape"]), data["classes"])
    return None if size is None else FLOAT * size + rest


@cache
def _parameters(name: str, options: str, shape: tuple[int, ...], classes: int) -> int | None:
    """Return the number of parameters of a model; None where torch, which builds it, is not installed."""
    try:
        import torch
    except ModuleNotFoundError:
        return None
    from flatfed import models

    with torch.device("meta"):
        return sum(each.numel() for each in models.build(name, shape, classes, json.loads(options)).parameters())


def lines(name: str, summary: Mapping[str, Any], device: str) -> Iterator[str]:
    """Yield what is printed of one table or figure, or of all, line by line."""
    there = "".join(f", {summary[state]} {state}" for state in THERE if summary[state])
    waiting = summary["runs"] - summary["finished"]
    cells = f"{summary['cells']} cells, " if summary["cells"] else ""
    yield f"{name}: {cells}{summary['runs']} runs: {summary['finished']} there{there}, {waiting} to make"
    jobs, others, absent = waiting + summary["timings"], summary["other_algorithm"], summary["not_measured"]
    if jobs:
        unit = "GPU-hours" if device == "cuda" else "hours of one job on the CPU"
        timings = f", {summary['timings']} timings among them" if summary["timings"] else ""
        hours = f"{summary['seconds'] / 3600:,.2f} {unit}{timings}, measured on {', '.join(summary['machines'])}"
        hours += f"; {others} of {jobs} by other algorithms of the protocol" if others else ""
        hours += f"; {absent} of {jobs} not measured" if absent else ""
        yield f"  time    {'not measured' if absent == jobs else hours}"
    unknown_size = f"; {summary['disk_unknown']} of unknown size" if summary["disk_unknown"] else ""
    yield f"  disk    {in_units(summary['disk_bytes'])} stay, {summary['models']} models kept{unknown_size}"
    if jobs:
        memory = {"host": summary["host_memory_bytes"], "device": summary["device_memory_bytes"]}
        taken = ", ".join(f"{where} {in_units(size)}" for where, size in memory.items() if size)
        rest = f"; {others + absent} of {jobs} not measured" if others + absent else ""
        yield f"  memory  {f'of one run: {taken} measured{rest}' if taken else 'not measured'}"


def asked_for(experiment: Experiment, scale: str, names: list[str], every: bool) -> Asked:
    """Return the tables, with their columns, and the figures that ``names`` are of.

    Without names they are those that config.yaml asks for at ``scale``, or all there are if ``every`` is true.

    :raises ConfigError: a name is neither a table's nor a figure's.
    """
    tables, figures = experiment.tables, experiment.figures
    for name in names:
        known.check("table or figure", name, Entries({**tables, **figures}, tables.refused | figures.refused), "plan")
    if not names:
        return scales.every(experiment, scale) if every else scales.there(experiment, scale, experiment.asked)
    asked = selection.with_columns(experiment, [name for name in dict.fromkeys(names) if name in tables])
    return Asked(asked, [name for name in dict.fromkeys(names) if name in figures])
