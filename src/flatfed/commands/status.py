"""``flatfed status``.

Prints a map of rows and columns for each table, also while Snakemake runs:
failed !, running >, stopped =, waiting ., diverged x, done #.
The next call of Snakemake resumes stopped runs. Runs of other code than the present follow, and failed jobs with the
last lines of their logs.
`watch python -m flatfed status` repeats the command.

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
from pathlib import Path
from typing import NamedTuple

from flatfed.commands import arguments, configuration, plan_needs
from flatfed.engine import versions
from flatfed.engine.job import progress
from flatfed.errors import DataError
from flatfed.experiment import CellSpec, Experiment, Run, cell_specs, scales
from flatfed.runs import lock, record
from flatfed.workflow.closing import last_line

#: State -> sign. A cell has the first state of any of its runs.
SIGNS = {"failed": "!", "running": ">", "stopped": "=", "waiting": ".", "diverged": "x", "done": "#"}

MADE = {"diverged", "done"}

#: The last line of the log of a failed and of a stopped job.
ERROR = re.compile(r"flatfed( \w+)?: |\w+(\.\w+)*(Error|Exception)\b")
STOPPED = re.compile(r"stopped by|flatfed \w+: interrupted")


class State(NamedTuple):
    """The state of a run: a name of ``SIGNS`` and an explanation."""

    name: str
    words: str = ""


ARGUMENTS = arguments.TABLES


def run(options: argparse.Namespace) -> None:
    """Print the states of the requested tables; ConfigError if there is no such table."""
    experiment = configuration.load(options.config)
    scale, requested = configuration.requested_tables(experiment, options)
    for line in [] if options.tables else scales.left_out(experiment, scale, experiment.requested):
        print(line, file=sys.stderr)
    tables = {name: cell_specs.cells(experiment, scale, name, columns) for name, columns in requested}
    runs = {run.path: run for cells in tables.values() for cell in cells for run in cell.runs}
    failed = failures(experiment.paths.logs, scale)
    states = {path: state(run, failed) for path, run in runs.items()}
    for name, cells in tables.items():
        of_cells = [cell_state(cell, states) for cell in cells]
        count = Counter(of_cells)
        parts = [f"{count[kind]} {kind} ({sign})" for kind, sign in reversed(SIGNS.items()) if count[kind]]
        print(f"{name}, {scale} scale: {len(cells)} cells: {', '.join(parts)}")
        print("\n".join(table_map(experiment, name, cells, of_cells)))
    jobs = [job for job in states.values() if job.words]
    jobs += [("failed", words) for log, words in failed.items() if "/train/" not in log]
    for name, words in sorted(set(jobs), key=lambda job: ([*SIGNS].index(job[0]), job[1])):
        print(f"{name:8} {words}")
    print(f"{sum(state.name not in MADE for state in states.values())} of {len(runs)} runs to make")


def state(run: Run, failed: Mapping[str, str]) -> State:
    folder = Path(run.path)
    held = lock.is_held(folder)
    state_on_disk = "" if held else plan_needs.state(run)
    if state_on_disk == "damaged":
        return State("failed", f"{run.record}: not the record of a run; delete it to train the run again")
    if state_on_disk == "finished":
        finished = record.read_finished(folder)
        texts = [f"in round {finished.diverged_at}"] if finished.diverged_at else []
        texts += filter(None, [versions.changes(finished.config, finished.versions)])
        return State("diverged" if finished.diverged_at else "done", f"{run.path}: {'; '.join(texts)}" if texts else "")
    position = progress.read(folder)
    begun, words = position is not None, f"{position.run}: {position}" if position else f"{run.path}: begins"
    if held:
        return State("running", words)
    with contextlib.suppress(OSError, DataError):
        rounds = record.read(folder / record.RECORD_SO_FAR).rounds_done
        begun, words = True, f"{run.path}: after round {rounds}"
    if (log := run.log("train")) in failed:
        return State("failed", failed[log])
    return State("stopped", words) if begun else State("waiting")


def failures(logs: str, scale: str) -> dict[str, str]:
    """Return {log: last line} of the logs in ``logs`` that end in an error."""
    errors = {}
    for log in (file for part in (scale, "fetch", "weights") for file in sorted(Path(logs, part).rglob("*.log"))):
        with contextlib.suppress(OSError):
            line = last_line(log.read_text(encoding="utf-8", errors="replace"))
            if ERROR.match(line) and not STOPPED.search(line):
                errors[str(log)] = f"{line}  ({log})"
    return errors


def cell_state(cell: CellSpec, states: Mapping[str, State]) -> str:
    """Return the state of ``cell``, "waiting" if one of its analyses or times is missing."""
    first = min((states[run.path].name for run in cell.runs), key=[*SIGNS].index, default="done")
    files = [run.hessian for run in cell.runs if cell.analysed] + [run.timing for run in cell.timed]
    return "waiting" if first in MADE and not all(Path(file).exists() for file in files) else first


def table_map(experiment: Experiment, table: str, cells: list[CellSpec], states: list[str]) -> Iterator[str]:
    """Yield the map of a table: a line of signs per row, in tens, then the columns."""
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
