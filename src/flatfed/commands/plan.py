"""``flatfed plan``: what tables and figures need and what it will cost, before anything runs."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from flatfed import gpus
from flatfed.commands import arguments, configuration, kinds, plan_counted
from flatfed.commands.plan_costs import Costs
from flatfed.commands.plan_measured import measured
from flatfed.engine.memory.sizes import SPARE, Sizes, listed
from flatfed.engine.memory.sizes import said as said_of
from flatfed.errors import ConfigError, DataError, unknown
from flatfed.experiment import Cell, Drawing, Experiment, Run, scales, selection, tuning
from flatfed.files import write_json
from flatfed.runs import identity
from flatfed.runs import record as records

#: What can be there of a run (:func:`state`).
STATES = ("finished", "begun", "stale", "damaged", "missing")

DETAIL = """\
For each, and for all together (a run that several share counts once): runs to make and runs there;
hours, from the seconds per round of finished runs and timings on this kind of device, scaled by the images
a round sees where the very run was not measured; where nothing like it was, counted from its operations,
at a speed that is named (paper scale); disk; memory. A table has the columns that config.yaml names of it,
all where it names none, or with --all. Trains nothing without --calibrate.
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
        "--calibrate",
        action="store_true",
        help="first time two rounds of one run of every kind (model, images, batch) that was never measured here",
    )
    sub.add_argument(
        "--keep-models",
        choices=("all", "needed"),
        help="count the disk of all models, or of those that an analysis reads (default: keep_models of config.yaml)",
    )
    sub.add_argument("--json", type=kinds.file, metavar="FILE", help="write the numbers as JSON, too")
    arguments.add_config(sub)


@dataclass
class Need:
    """What a table or figure, or several, need: runs by path, those whose model an analysis reads, timings by path."""

    cells: int = 0
    runs: dict[str, Run] = field(default_factory=dict)
    analysed: set[str] = field(default_factory=set)
    timings: dict[str, Run] = field(default_factory=dict)

    def add(self, cells: Iterable[Cell]) -> None:
        """Add what ``cells`` read."""
        for cell in cells:
            self.cells += 1
            self.runs |= {run.path: run for run in cell.runs}
            if cell.analysed:
                self.analysed |= {run.path for run in cell.runs}
            self.timings |= {run.timing: run for run in cell.timed}

    def add_figure(self, figure: Drawing) -> None:
        """Add what a figure, as ``Experiment.figure`` returns it, reads."""
        self.runs |= figure.runs
        self.analysed |= set(figure.runs) if figure.analysed else set()

    def add_searches(self, searches: Iterable[tuning.Search], experiment: Experiment) -> None:
        """Add the runs that ``searches`` try the points of their grids with."""
        for found in searches:
            runs = [tuning.run(experiment, found, point) for point in found.points()]
            self.runs |= {run.path: run for run in runs}

    def join(self, other: Need) -> None:
        """Add another need; runs that both share count once."""
        self.cells += other.cells
        self.runs |= other.runs
        self.analysed |= other.analysed
        self.timings |= other.timings


def state(run: Run, analysed: bool = False) -> str:
    """Return what is there of a run: "finished", "begun", "missing", "stale", made from another description, or
    "damaged": its run.json cannot be read as a record.

    A run whose model was not kept is missing where an analysis has to read that.
    """
    folder = Path(run.path)
    try:
        about = records.read(folder / records.RECORD)
        same = identity.updated(about.description) == run.description
        if analysed and not (folder / "model.safetensors").exists():
            return "missing"
        if not same:
            return "stale"
        return "finished" if about.ended else "begun"
    except FileNotFoundError:
        return "begun" if folder.is_dir() and any(folder.iterdir()) else "missing"
    except DataError:
        return "damaged"


def run(options: argparse.Namespace) -> None:
    """Print what tables and figures need and what that costs.

    :raises ConfigError: there is no such table or figure.
    A record that is damaged is named on stderr; nothing is estimated from it, and its run counts as damaged.
    """
    experiment = configuration.load(options.config)
    scale = options.scale or selection.scale_of(experiment, options.tables)
    asked, figures = wanted(experiment, scale, options.tables, options.all)
    if options.cells:
        for name, columns in asked:
            for cell in experiment.cells(scale, name, columns):
                made = "made" if Path(cell.path).exists() else "not made"
                print(f"{name}/{cell.spec.column}/{cell.spec.row}  {made}")
        return
    needs = needs_of(experiment, scale, asked, figures, options.tuning)
    total = Need()
    for need in needs.values():
        total.join(need)
    costs, left_out = known(experiment, scale)
    for line in [*left_out, *([] if options.tables or options.all else experiment.left_out(scale))]:
        print(line, file=sys.stderr)
    if options.calibrate:
        from flatfed.commands.calibrate import calibrate

        if calibrate(experiment, costs, [run for run in total.runs.values() if state(run) != "finished"]):
            costs, _ = known(experiment, scale)
    keep_models = "needed" if options.tuning else options.keep_models or experiment.config.get("keep_models", "needed")
    states = {path: state(run, path in total.analysed) for path, run in total.runs.items()}
    sums = {name: summary(need, states, costs, keep_models) for name, need in needs.items()}
    sums["total"] = summary(total, states, costs, keep_models)
    for name, numbers in sums.items():
        if name != "total" or len(needs) > 1:
            what = name if name == "total" else f"{name}, {scale} scale"
            print("\n".join(lines(f"{what}, tuning" if options.tuning else what, numbers, costs)))
    for line in plan_counted.explained(sums["total"], costs.rate):
        print(line)
    if options.json is not None:
        about = {"scale": scale, "device": costs.device, "machines": costs.machines()}
        write_json(options.json, {**about, "requests": requests(total.runs.values(), costs), "plan": sums})


def requests(runs: Iterable[Run], costs: Costs) -> dict[str, dict[str, float]]:
    """Return protocol -> the minutes and bytes of its longest and largest run, where something like it was measured.

    The bytes are those on the host: measured or worked out, whichever is more.
    """
    found: dict[str, dict[str, float]] = {}
    for run in runs:
        each, _ = costs.seconds(run)
        if each is not None:
            longest = found.setdefault(run.protocol, {"minutes": 0.0, "memory_bytes": 0})
            longest["minutes"] = max(longest["minutes"], round(each * run.description["rounds"] / 60, 2))
            longest["memory_bytes"] = max(longest["memory_bytes"], *costs.on_host(run))
    return found


def needs_of(
    experiment: Experiment, scale: str, tables: list[tuple[str, list[str] | None]], figures: list[str], tuned: bool
) -> dict[str, Need]:
    """Return what each of ``tables`` and ``figures`` needs: its runs or, if ``tuned``, those that choose for it."""
    needs: dict[str, Need] = {name: Need() for name in [*(name for name, _ in tables), *figures]}
    for name, columns in tables:
        if tuned:
            needs[name].add_searches(tuning.wanted(experiment, scale, [(name, columns)], []), experiment)
        else:
            needs[name].add(experiment.cells(scale, name, columns))
    for name in figures:
        if tuned:
            needs[name].add_searches(tuning.wanted(experiment, scale, [], [name]), experiment)
        else:
            needs[name].add_figure(experiment.figure(scale, name))
    return needs


def wanted(
    experiment: Experiment, scale: str, names: list[str], every: bool
) -> tuple[list[tuple[str, list[str] | None]], list[str]]:
    """Return (tables with their columns, figures) of the ``names``, or, at ``scale``, of config.yaml or ``every`` one.

    :raises ConfigError: a name is neither a table's nor a figure's.
    """
    for name in names:
        if name not in experiment.tables and name not in experiment.figures:
            known_ids = [*experiment.tables, *experiment.figures]
            raise ConfigError(unknown("table or figure", name, known_ids, "plan"))
    if not names and not every:
        return experiment.selected(scale), experiment.selected_figures(scale)
    if not names:
        return scales.every(experiment, scale)
    tables = selection.named(experiment, [name for name in dict.fromkeys(names) if name in experiment.tables])
    return tables, [name for name in dict.fromkeys(names) if name in experiment.figures]


def known(experiment: Experiment, scale: str) -> tuple[Costs, list[str]]:
    """Return the costs that are known at ``scale`` for the configuration's device, and a line for what is left out."""
    datasets = experiment.catalog.datasets
    training, test = ({name: entry[part] for name, entry in datasets.items()} for part in ("train", "test"))
    device = gpus.resolve(experiment.config.get("device", "auto"))
    found, left_out = measured(Path(experiment.places.results, scale))
    return Costs(found, device, training, test), left_out


def summary(need: Need, states: dict[str, str], costs: Costs, keep_models: str) -> dict[str, Any]:
    """Return the numbers of a need: runs by state, seconds to train, bytes of disk and memory; plain data."""
    waiting = [run for path, run in need.runs.items() if states[path] != "finished"]
    timed = {path: run for path, run in need.timings.items() if not Path(path).exists()}
    seconds, evaluation, how = 0.0, 0.0, Counter()
    for run, rounds in [(run, run.description["rounds"]) for run in waiting] + [(run, 6) for run in timed.values()]:
        each, kind = costs.expected(run)
        seconds += rounds * (each or 0.0)
        evaluation += rounds * (each or 0.0) * (costs.evaluation(run) or 0.0)
        how[kind] += 1
    kept = need.runs if keep_models == "all" else need.analysed
    sizes = [costs.disk(run, path in kept) for path, run in need.runs.items()]
    worked_out = [(found, run) for run in waiting if (found := costs.sizes(run)) is not None]
    largest, of = max(worked_out, key=lambda one: one[0].total, default=(None, None))
    peaks = [costs.memory(run) for run in waiting]
    return {
        "cells": need.cells,
        "runs": len(need.runs),
        **{name: sum(states[path] == name for path in need.runs) for name in STATES},
        "timings": len(timed),
        "seconds": round(seconds, 1),
        "evaluation_seconds": round(evaluation, 1),
        **{kind: how[kind] for kind in plan_counted.WAYS},
        "disk_bytes": sum(size or 0 for size in sizes),
        "disk_unknown": sum(size is None for size in sizes),
        "models": len(kept),
        "client_state_bytes": max((found.state for found, _ in worked_out), default=0),
        "largest": {"run": of.name, **asdict(largest), "total": largest.total} if of is not None else None,
        "host_memory_bytes": max((host for host, _ in peaks), default=0),
        "device_memory_bytes": max((device for _, device in peaks), default=0),
    }


def lines(name: str, numbers: dict[str, Any], costs: Costs) -> list[str]:
    """Return what is said of one table, or of all, line by line."""
    there = f"{numbers['finished']} there"
    there += "".join(f", {numbers[key]} {key}" for key in ("begun", "stale", "damaged") if numbers[key])
    waiting = numbers["runs"] - numbers["finished"]
    cells = f"{numbers['cells']} cells, " * bool(numbers["cells"])
    said = [f"{name}: {cells}{numbers['runs']} runs: {there}, {waiting} to make"]
    if waiting or numbers["timings"]:
        unit = "GPU-hours" if costs.device == "cuda" else "hours of one job on the CPU"
        parts = [f"{numbers[kind]} {kind}" for kind in plan_counted.WAYS if numbers[kind]]
        hours = f"{numbers['seconds'] / 3600:,.2f} {unit}" if numbers["seconds"] else "unknown"
        where = f"; on {', '.join(costs.machines())}" if costs.machines() else ""
        timings = f", {numbers['timings']} timings among them" * bool(numbers["timings"])
        share = numbers["evaluation_seconds"] / (numbers["seconds"] or 1)
        evaluated = f", {100 * share:.0f} % of it evaluation" * bool(share)
        said.append(f"  time    {hours}{evaluated} ({', '.join(parts)}{where}){timings}")
    disk = [f"  disk    {said_of(numbers['disk_bytes'])} stay, {numbers['models']} models kept"]
    if waiting and (of := numbers["largest"]):
        disk.append(f"a checkpoint of up to {said_of(of['state'] + of['server'])} while a run trains")
    disk += [f"{numbers['disk_unknown']} of unknown size"] * bool(numbers["disk_unknown"])
    said.append("; ".join(disk))
    if waiting:
        peaks = {word: numbers[f"{word}_memory_bytes"] for word in ("host", "device")}
        taken = ", ".join(f"{word} {said_of(size)}" for word, size in peaks.items() if size)
        said += [
            *[f"  memory  of one run: {taken} measured"] * bool(taken),
            *memory_lines(numbers["largest"], costs.device),
        ]
    return said


def memory_lines(largest: dict[str, Any] | None, device: str) -> Iterable[str]:
    """Yield what the largest run takes at most, by what takes it, and where that lies."""
    if largest is None:
        return
    found = Sizes(**{field.name: largest[field.name] for field in fields(Sizes)})
    on = "the GPU" if device == "cuda" else "the host"
    yield f"  memory  worked out for {largest['run']}: at most {said_of(found.total)} on {on}: {listed(found.parts())}"
    twice = said_of(SPARE * found.state)
    where = f"stays on the GPU where {twice} are free, else " if device == "cuda" else ""
    if found.state:
        yield f"          client state {where}in the host's memory where {twice} are free, else in a file"
    place = "on the GPU if half of that is free, else memory-mapped" if device == "cuda" else "memory-mapped"
    yield f"          training images {said_of(found.data)}, {place}"
