"""``flatfed status``: which cells of which tables are done, which runs are under way or failed.

Reads results and logs; may be called at any time, beside a running Snakemake, on any host that sees the
folder. Each table is drawn as a map of its rows and columns:
failed !, running >, stopped =, waiting ., diverged x, done #.
Stopped: begun, and no process is at it, as far as this host sees its lock; the next call of Snakemake goes on
with it. Below the tables are
all jobs that failed, by the last lines of their logs. `flatfed plan` forecasts the hours left.
`watch python -m flatfed status` looks every two seconds.

example:
  python -m flatfed status fedsmoo2023_T1 --scale paper
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from flatfed.commands import arguments, configuration, plan_needs
from flatfed.engine.job import progress
from flatfed.errors import DataError
from flatfed.experiment import CellSpec, Experiment, Run, cell_specs, scales
from flatfed.runs import lock, record
from flatfed.workflow.closing import last_line

#: States of runs and cells, and how a cell of each is drawn; a cell is in the first state that any of its runs is in.
SIGNS = {"failed": "!", "running": ">", "stopped": "=", "waiting": ".", "diverged": "x", "done": "#"}

#: States of what has been made; a training that diverged has been, up to that round.
MADE = {"diverged", "done"}

#: The last line of the log of a job that failed, and of one that was stopped.
ERROR = re.compile(r"flatfed( \w+)?: |\w+(\.\w+)*(Error|Exception)\b")
STOPPED = re.compile(r"stopped by|flatfed \w+: interrupted")


@dataclass(frozen=True)
class State:
    """The state of a run: ``name`` is one of ``SIGNS``, ``words`` explain it."""

    name: str
    words: str = ""


ARGUMENTS = arguments.TABLES


def run(options: argparse.Namespace) -> None:
    """Print the state of the tables that the command line asks for; a run whose record is damaged has failed.

    :raises ConfigError: there is no such table.
    """
    experiment = configuration.load(options.config)
    scale, asked = configuration.asked_tables(experiment, options)
    for line in [] if options.tables else scales.left_out(experiment, scale, experiment.requested):
        print(line, file=sys.stderr)
    tables = {name: cell_specs.cells(experiment, scale, name, columns) for name, columns in asked}
    runs = {run.path: run for cells in tables.values() for cell in cells for run in cell.runs}
    failed = failures(experiment.places.logs, scale)
    states = {path: state(run, failed) for path, run in runs.items()}
    for name, cells in tables.items():
        of_cells = [cell_state(cell, states) for cell in cells]
        count = Counter(of_cells)
        parts = [f"{count[kind]} {kind} ({sign})" for kind, sign in reversed(SIGNS.items()) if count[kind]]
        print(f"{name}, {scale} scale: {len(cells)} cells: {', '.join(parts)}")
        print("\n".join(drawn(experiment, name, cells, of_cells)))
    jobs = [(job.name, job.words) for job in states.values() if job.words]
    jobs += [("failed", words) for log, words in failed.items() if "/train/" not in log]
    for name, words in sorted(set(jobs), key=lambda job: ([*SIGNS].index(job[0]), job[1])):
        print(f"{name:8} {words}")
    print(f"{sum(state.name not in MADE for state in states.values())} of {len(runs)} runs to make")


def state(run: Run, failed: Mapping[str, str]) -> State:
    """Return the state of ``run``, from its folder and the logs of ``failed`` jobs."""
    folder = Path(run.path)
    held = lock.is_held(folder)
    there = "" if held else plan_needs.state(run)
    if there == "damaged":
        return State("failed", f"{run.record}: not the record of a run; delete it, and the run is made again")
    if there == "finished":
        diverged_at = record.read_finished(folder).diverged_at
        return State("done") if diverged_at is None else State("diverged", f"{run.path}: in round {diverged_at}")
    at = progress.read(folder)
    begun, words = at is not None, f"{at.run}: {at}" if at else f"{run.path}: begins"
    if held:
        return State("running", words)
    with contextlib.suppress(OSError, DataError):
        rounds = record.read(folder / record.RECORD_SO_FAR).rounds_done
        begun, words = True, f"{run.path}: after round {rounds}"
    for log in (run.log("train"), run.places.log("train", run.scale, f"{run.row}/seeds")):
        if log in failed:
            return State("failed", failed[log])
    return State("stopped", words) if begun else State("waiting")


def failures(logs: str, scale: str) -> dict[str, str]:
    """Return {log: its last line} of the jobs whose logs, in the folder ``logs``, end in an error."""
    found = {}
    for log in (file for part in (scale, "fetch", "weights") for file in sorted(Path(logs, part).rglob("*.log"))):
        with contextlib.suppress(OSError):
            line = last_line(log.read_text(encoding="utf-8", errors="replace"))
            if ERROR.match(line) and not STOPPED.search(line):
                found[str(log)] = f"{line}  ({log})"
    return found


def cell_state(cell: CellSpec, states: Mapping[str, State]) -> str:
    """Return the state of ``cell``: the first of ``SIGNS`` that one of its runs is in, if analyses and times exist."""
    first = min((states[run.path].name for run in cell.runs), key=[*SIGNS].index, default="done")
    files = [run.hessian for run in cell.runs if cell.analysed] + [run.timing for run in cell.timed]
    return "waiting" if first in MADE and not all(Path(file).exists() for file in files) else first


def drawn(experiment: Experiment, table: str, cells: list[CellSpec], states: list[str]) -> Iterator[str]:
    """Yield the map of a table: a line for each row with a sign for each column, in tens; then the columns' names."""
    entries = experiment.tables[table].entries
    rows: dict[str, str] = {}
    for cell, state in zip(cells, states, strict=True):
        rows[cell.row] = rows.get(cell.row, "") + SIGNS[state]
    width = max(len(entries[row].label) for row in rows)
    for row, signs in rows.items():
        yield f"  {entries[row].label:{width}}  {' '.join(textwrap.wrap(signs, 10))}"
    columns = dict.fromkeys(cell.column for cell in cells)
    if len(columns) > 1:
        yield "  columns: " + ", ".join(f"{number}={column}" for number, column in enumerate(columns, start=1))
