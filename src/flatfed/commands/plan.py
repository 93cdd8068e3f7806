"""``flatfed plan``: what tables and figures need and what it will cost, before anything runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from flatfed import forms
from flatfed.commands import arguments, configuration, kinds
from flatfed.commands.plan_costs import Costs, known_costs
from flatfed.commands.plan_needs import joined, needs_of, state
from flatfed.commands.plan_summary import explained, lines, summarise
from flatfed.errors import ConfigError, unknown
from flatfed.experiment import Asked, AskedTable, Experiment, Run, scales, selection
from flatfed.files import write_json
from flatfed.workflow.requests import Measured

DETAIL = """\
For each, and for all together (a run that several share counts once): runs to make and runs there;
hours, from the seconds per round of finished runs and timings on this kind of device, scaled by the images
a round sees where the very run was not measured; where nothing like it was, counted from its operations,
at a speed that is named (paper scale); disk; memory. A table has the columns that config.yaml names of it,
all where it names none, or with --all.
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
    costs, left_out = known_costs(experiment, scale)
    for line in [*left_out, *([] if options.tables or options.all else experiment.left_out(scale))]:
        print(line, file=sys.stderr)
    keep_models = "needed" if options.tuning else options.keep_models or experiment.config.get("keep_models", "needed")
    states = {path: state(run, path in total.analysed) for path, run in total.runs.items()}
    parts = {name: summarise(need, states, costs, keep_models) for name, need in needs.items()}
    whole = summarise(total, states, costs, keep_models)
    titled = {f"{name}, {scale} scale": part for name, part in parts.items()}
    for title, summary in [*titled.items(), *([("total", whole)] if len(parts) > 1 else [])]:
        print("\n".join(lines(f"{title}, tuning" if options.tuning else title, summary, costs)))
    for line in explained(whole, costs):
        print(line)
    if options.json is not None:
        about = {"scale": scale, "device": costs.device, "machines": costs.machines()}
        plan = {name: summary.plain() for name, summary in {**parts, "total": whole}.items()}
        asked = forms.plain(requests(total.runs.values(), costs))
        write_json(options.json, {**about, "requests": asked, "plan": plan})


def print_cells(experiment: Experiment, scale: str, tables: list[AskedTable]) -> None:
    """Print the cells of ``tables``, table/column/row, and whether each is made."""
    for name, columns in tables:
        for cell in experiment.cells(scale, name, columns):
            made = "made" if Path(cell.path).exists() else "not made"
            print(f"{name}/{cell.spec.column}/{cell.spec.row}  {made}")


def requests(runs: Iterable[Run], costs: Costs) -> dict[str, Measured]:
    """Return what was measured of each protocol; of memory, measured or worked out, whichever is more."""
    by_protocol: dict[str, Measured] = {}
    for run in runs:
        each = costs.seconds(run).round
        if each is not None:
            others = by_protocol.get(run.protocol, Measured(minutes=0.0, memory_bytes=0))
            minutes = max(others.minutes, round(each * run.description["rounds"] / 60, 2))
            memory = max(others.memory_bytes, costs.on_host(run))
            by_protocol[run.protocol] = Measured(minutes=minutes, memory_bytes=memory)
    return by_protocol


def asked_for(experiment: Experiment, scale: str, names: list[str], every: bool) -> Asked:
    """Return the tables, with their columns, and the figures that ``names`` are of.

    Without names they are those that config.yaml asks for at ``scale``, or all there are if ``every`` is true.

    :raises ConfigError: a name is neither a table's nor a figure's.
    """
    for name in names:
        if name not in experiment.tables and name not in experiment.figures:
            known_ids = [*experiment.tables, *experiment.figures]
            raise ConfigError(unknown("table or figure", name, known_ids, "plan"))
    if not names and not every:
        return experiment.selected(scale)
    if not names:
        return scales.every(experiment, scale)
    tables = selection.with_columns(experiment, [name for name in dict.fromkeys(names) if name in experiment.tables])
    return Asked(tables, [name for name in dict.fromkeys(names) if name in experiment.figures])
