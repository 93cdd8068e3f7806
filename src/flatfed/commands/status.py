"""``flatfed status``: which cells of which tables are done, which runs are under way or failed, and the hours left."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import re
import socket
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from flatfed.commands import arguments, configuration, plan_measured, plan_needs
from flatfed.commands.plan_measured import Measured, Measurements
from flatfed.engine.job import progress
from flatfed.errors import DataError
from flatfed.experiment import CellSpec, Experiment, Run
from flatfed.runs import lock, places, record
from flatfed.workflow.closing import last_line

#: States of runs and cells, and how a cell of each is drawn; a cell is in the first state that any of its runs is in.
SIGNS = {"failed": "!", "running": ">", "stopped": "=", "waiting": ".", "diverged": "x", "done": "#"}

#: States of what has been made; a training that diverged has been, up to that round.
MADE = {"diverged", "done"}

#: A training on another host counts as stopped when it has written nothing for so many seconds and for three rounds.
#: On this host, and where locks work over the network, its lock tells.
QUIET = 600.0

#: The last line of the log of a job that failed, and of one that was stopped.
ERROR = re.compile(r"flatfed( \w+)?: |\w+(\.\w+)*(Error|Exception)\b")
STOPPED = re.compile(r"stopped by|flatfed \w+: interrupted")


@dataclass(frozen=True)
class State:
    """The state of a run or cell: ``name`` is one of ``SIGNS``, ``words`` explain it.

    ``rounds``: how many are done. ``pace``: seconds of one of its rounds, where it runs and has made one.
    """

    name: str
    words: str = ""
    rounds: int = 0
    pace: float | None = None


DETAIL = f"""\
Reads results and logs; may be called at any time, beside a running Snakemake, on any host that sees the
folder. Each table is drawn as a map of its rows and columns: {", ".join(map(" ".join, SIGNS.items()))}.
Stopped: begun, and no process is at it; the next call of Snakemake goes on with it. Failed are also runs
whose data failed, cells whose Hessians or times failed, and tables that refused runs.
`watch python -m flatfed status` looks every two seconds."""
EXAMPLE = "python -m flatfed status fedsmoo2023_T1 --scale paper"

ARGUMENTS = arguments.TABLES


def run(options: argparse.Namespace) -> None:
    """Print the state of the tables that the command line asks for; a run whose record is damaged has failed.

    :raises ConfigError: there is no such table.
    """
    experiment = configuration.load(options.config)
    scale, asked = configuration.asked_tables(experiment, options)
    for line in [] if options.tables else experiment.left_out(scale):
        print(line, file=sys.stderr)
    tables = {name: experiment.cells(scale, name, columns) for name, columns in asked}
    runs = {run.path: run for cells in tables.values() for cell in cells for run in cell.runs}
    states = {path: state(run) for path, run in runs.items()}
    cell_states = {name: [cell_state(cell, states) for cell in cells] for name, cells in tables.items()}
    for name, cells in tables.items():
        count = Counter(state.name for state in cell_states[name])
        parts = [f"{count[kind]} {kind} ({sign})" for kind, sign in reversed(SIGNS.items()) if count[kind]]
        print(f"{name}, {scale} scale: {len(cells)} cells: {', '.join(parts)}")
        print("\n".join(drawn(experiment, name, cells, cell_states[name])))
    unfinished = [run for path, run in runs.items() if states[path].name not in MADE]
    known, _ = plan_measured.measured(experiment, scale)
    hours = left(unfinished, states, known) if runs else "they need no runs"
    refused = [failure([experiment.places.log("table", scale, name)]) for name in tables]
    jobs = itertools.chain(states.values(), *cell_states.values(), filter(None, refused))
    print("\n".join([*listed(jobs), hours]))


def state(run: Run) -> State:
    """Return the state of ``run``, from its folder and its log; one that waits for data whose job failed has failed."""
    folder = Path(run.path)
    held = lock.is_held(folder)
    there = "" if held else plan_needs.state(run)
    if there == "damaged":
        return State("failed", f"{run.record}: not the record of a run; delete it, and the run is made again")
    if there == "finished":
        diverged_at = record.read_finished(folder).diverged_at
        return State("done") if diverged_at is None else State("diverged", f"{run.path}: in round {diverged_at}")
    at = progress.read(folder)
    words, rounds, pace = (f"{at.run}: {at}", at.round, at.pace) if at else (f"{run.path}: begins", 0, None)
    if held or (at and _writes_elsewhere(folder, at)):
        return State("running", words, rounds, pace)
    with contextlib.suppress(OSError, DataError):
        rounds = record.read(folder / record.RECORD_SO_FAR).rounds_done
        words = f"{run.path}: after round {rounds}"
    if failed := failure([run.log("train"), run.places.log("train", run.scale, f"{run.row}/seeds")]):
        return replace(failed, rounds=rounds)
    if at or rounds:
        return State("stopped", words, rounds)
    return failure(_logs_before(run)) or State("waiting")


def _writes_elsewhere(folder: Path, at: progress.Progress) -> bool:
    """Return whether a training on another host wrote to ``folder`` lately."""
    with contextlib.suppress(FileNotFoundError):  # it has just ended
        quiet = time.time() - (folder / progress.STATE).stat().st_mtime
        return at.host != socket.gethostname() and quiet < max(QUIET, 3 * (at.pace or 0.0))
    return False


def failure(logs: Iterable[str]) -> State | None:
    """Return the state of a job one of whose ``logs`` ends in an error, None where none does."""
    for log in logs:
        with contextlib.suppress(OSError):
            line = last_line(Path(log).read_text(encoding="utf-8", errors="replace"))
            if ERROR.match(line) and not STOPPED.search(line):
                return State("failed", f"{line}  ({log})")
    return None


def _logs_before(run: Run) -> Iterator[str]:
    """Yield the logs of what ``run`` waits for: its data, its partition, its pre-trained weights."""
    if not Path(run.manifest).exists():
        yield run.places.log("fetch", run.dataset)
    if not Path(run.partition).exists():
        plain = places.without_label(run.protocol)
        yield run.places.log("partition", run.scale, f"{plain}/{run.split}/seed{run.seed}")
    if run.weights and not Path(run.weights).exists():
        yield run.places.log("weights", run.description["model"]["weights"])


def cell_state(cell: CellSpec, states: dict[str, State]) -> State:
    """Return the state of ``cell``: the first of ``SIGNS`` that one of its runs is in, if analyses and times exist."""
    first = min((states[run.path].name for run in cell.runs), key=[*SIGNS].index, default="done")
    logs = [run.log("hessian") for run in cell.runs if cell.analysed and not Path(run.hessian).exists()]
    logs += [run.places.log("timing", run.scale, run.row) for run in cell.timed if not Path(run.timing).exists()]
    return State(first) if first not in MADE or not logs else failure(logs) or State("waiting")


def drawn(experiment: Experiment, table: str, cells: list[CellSpec], states: list[State]) -> Iterator[str]:
    """Yield the map of a table: a line for each row with a sign for each column, in tens; then the columns' names."""
    entries = experiment.tables[table].entries
    rows: dict[str, str] = {}
    for cell, state in zip(cells, states, strict=True):
        rows[cell.row] = rows.get(cell.row, "") + SIGNS[state.name]
    width = max(len(entries[row].label) for row in rows)
    for row, signs in rows.items():
        yield f"  {entries[row].label:{width}}  {' '.join(textwrap.wrap(signs, 10))}"
    columns = dict.fromkeys(cell.column for cell in cells)
    if len(columns) > 1:
        yield "  columns: " + ", ".join(f"{number}={column}" for number, column in enumerate(columns, start=1))


def listed(states: Iterable[State]) -> Iterator[str]:
    """Yield a line for each failed, running, stopped and diverged job."""
    jobs = Counter((job.name, job.words) for job in states if job.words)
    for (name, words), count in sorted(jobs.items(), key=lambda job: [*SIGNS].index(job[0][0])):
        yield f"{name:8} {words}" + (f"  ({count} wait for it)" if count > 1 else "")


def left(unfinished: list[Run], states: dict[str, State], known: Measurements) -> str:
    """Return how long the ``unfinished`` runs will take, by runs that are finished or under way here."""
    under_way = [Measured(run.description, pace) for run in unfinished if (pace := states[run.path].pace)]
    here = Measurements([*(past for past in known.runs if not past.published), *under_way], known.device)
    paces = [states[run.path].pace or here.seconds(run) for run in unfinished]
    rounds = [run.description["rounds"] - states[run.path].rounds for run in unfinished]
    seconds = sum(count * pace for count, pace in zip(rounds, paces, strict=True) if pace)
    hours = f": {progress.duration(seconds)} of one {'GPU' if known.device == 'cuda' else 'core'}" if seconds else ""
    unknown = f"; {paces.count(None)} runs of unknown length" if None in paces else ""
    return f"{len(unfinished)} runs to make{hours}{unknown}"
