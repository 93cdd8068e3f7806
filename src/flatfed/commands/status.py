"""``flatfed status``: which cells of which tables are done, which runs are under way or failed, and the hours left."""

from __future__ import annotations

import argparse
import contextlib
import re
import socket
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from flatfed.commands import arguments, configuration, plan_needs
from flatfed.commands.plan_measured import Measured, Measurements, measured
from flatfed.engine.job import progress
from flatfed.experiment import Cell, Experiment, Run
from flatfed.runs import lock
from flatfed.runs import record as records
from flatfed.runs.places import without_label
from flatfed.workflow.closing import last_line

#: States of runs and cells, and how a cell of each is drawn; a cell is in the first state that any of its runs is in.
SIGNS = {"failed": "!", "running": ">", "stopped": "=", "waiting": ".", "diverged": "x", "done": "#"}

#: States of what has been made; a training that diverged has been, up to that round.
MADE = {"diverged", "done"}

#: A training on another host counts as stopped when it has written nothing for so many seconds and for three rounds,
#: where it says how long these are. On this host, and where locks work over the network, its lock tells.
QUIET = 600.0

#: How many jobs of each state are listed at the end, at most.
LISTED = 12

#: What a line of a log says: a round (see flatfed.engine.job.progress), an error, or that it was told to stop.
ROUND = re.compile(r"round (\d+)/\d+ .* left")
ERROR = re.compile(r"flatfed( \w+)?: |\w+(\.\w+)*(Error|Exception)\b")
STOPPED = re.compile(r"stopped by|flatfed \w+: interrupted")
ENDED = re.compile(r"(done in|diverged at round) ")


@dataclass(frozen=True)
class State:
    """The state of a run or cell: ``name`` is one of ``SIGNS``, ``words`` are the last line of its ``log``.

    ``rounds``: how many are done, about. ``pace``: seconds of one of its rounds, where it runs and has made one.
    """

    name: str
    words: str = ""
    log: str = ""
    rounds: int = 0
    pace: float | None = None


@dataclass(frozen=True)
class LogEnd:
    """How a log ends: its last ``line``, when it was ``written`` (seconds since 1970), the last round it speaks of."""

    log: str = ""
    line: str = ""
    written: float = 0.0
    rounds: int = 0

    @property
    def failed(self) -> bool:
        """Whether the job ended in an error."""
        return bool(ERROR.match(self.line)) and not STOPPED.search(self.line)


SIGNED = ", ".join(f"{sign} {name}" for name, sign in SIGNS.items())

DETAIL = f"""\
Reads results and logs; may be called at any time, beside a running Snakemake, on any host that sees the
folder. Each table is drawn as a map of its rows and columns: {SIGNED}.
Stopped: begun, and no process is at it; the next call of Snakemake goes on with it. Failed are also runs
and cells whose data, Hessian or own job failed. `watch python -m flatfed status` looks every two seconds."""
EXAMPLE = "python -m flatfed status fedsmoo2023_T1 --scale paper"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    arguments.add_tables(sub)
    arguments.add_config(sub)


def run(options: argparse.Namespace) -> None:
    """Print the state of the tables that the command line asks for.

    A run whose record is damaged has failed; other records that are damaged are named on stderr.

    :raises ConfigError: there is no such table.
    """
    experiment = configuration.load(options.config)
    scale, asked = configuration.asked_tables(experiment, options)
    for line in [] if options.tables else experiment.left_out(scale):
        print(line, file=sys.stderr)
    tables = {name: experiment.cells(scale, name, columns) for name, columns in asked}
    runs = {run.path: run for cells in tables.values() for cell in cells for run in cell.runs}
    states = states_of(runs.values())
    cell_states = {cell.path: cell_state(cell, states) for cells in tables.values() for cell in cells}
    for name, cells in tables.items():
        print(summary(f"{name}, {scale} scale", cells, cell_states))
        print("\n".join(drawn(experiment, name, cells, cell_states)))
    unfinished = [run for path, run in runs.items() if states[path].name not in MADE]
    known, left_out = measured(experiment, scale)
    hours = left(unfinished, states, known) if runs else "they need no runs"
    print("\n".join([*listed([*states.values(), *cell_states.values()]), hours]))
    failed = tuple(f"{path}/" for path, job in states.items() if job.name == "failed")
    for line in left_out:
        if not line.startswith(failed):
            print(line, file=sys.stderr)


def states_of(runs: Collection[Run]) -> dict[str, State]:
    """Return the state of each run by its path; one that waits for data whose job failed has failed, too."""
    now = time.time()
    states = {run.path: state(run, now) for run in runs}
    waiting = [run for run in runs if states[run.path].name == "waiting"]
    return states | {run.path: failed for run in waiting if (failed := failure_before(run))}


def state(run: Run, now: float) -> State:
    """Return the state of ``run`` at the time ``now`` (seconds since 1970), from its folder and its log."""
    folder, at = Path(run.path), progress.read(Path(run.path))
    held = lock.is_held(folder)
    there = "" if held else plan_needs.state(run)
    if there == "damaged":
        words = f"{run.record}: not the record of a run; delete it, and the run is made again"
        return State("failed", words, run.path)
    if there == "finished":
        diverged_at = records.read_finished(folder).diverged_at
        if diverged_at is None:
            return State("done")
        return State("diverged", f"{run.path}: in round {diverged_at}", run.path)
    end = log_end(run.log("train"), run.places.log("train", run.scale, f"{run.row}/seeds"))
    if at is not None:
        written = end.written
        with contextlib.suppress(FileNotFoundError):  # it has just ended
            written = (folder / progress.STATE).stat().st_mtime
        elsewhere = at.host != socket.gethostname()
        alive = held or (elsewhere and now - written < max(QUIET, 3 * (at.pace or 0.0)))
        if alive or not ERROR.match(end.line):
            words, pace = f"{at.run}: {at}", at.pace if alive else None
            return State("running" if alive else "stopped", words, end.log, at.round, pace)
    if held:
        return State("running", end.line or f"{run.path}: begins", end.log, end.rounds)
    if not end.log or (at is None and ENDED.search(end.line)):  # the log of a run whose results were taken away
        return State("waiting")
    if end.failed:
        return State("failed", end.line, end.log, end.rounds)
    alive = now - end.written < QUIET and not STOPPED.search(end.line)
    return State("running" if alive else "stopped", end.line, end.log, end.rounds)


def log_end(*logs: str) -> LogEnd:
    """Return how the newest of ``logs`` ends."""
    texts = []
    for log in map(Path, logs):
        with contextlib.suppress(OSError):
            texts.append((log.stat().st_mtime, str(log), log.read_text(encoding="utf-8", errors="replace")))
    if not texts:
        return LogEnd()
    written, log, text = max(texts)
    rounds = ROUND.findall(text)
    return LogEnd(log, last_line(text), written, int(rounds[-1]) if rounds else 0)


def failure(logs: Iterable[str]) -> State | None:
    """Return the state of a job one of whose ``logs`` ends in an error, None where none does."""
    ends = map(log_end, logs)
    return next((State("failed", end.line, end.log) for end in ends if end.failed), None)


def failure_before(run: Run) -> State | None:
    """Return the failure of what ``run`` waits for: its data, its partition, its pre-trained weights."""
    log = run.places.log
    needs = [
        (run.manifest, log("fetch", run.dataset)),
        (run.partition, log("partition", run.scale, f"{without_label(run.protocol)}/{run.split}/seed{run.seed}")),
    ]
    if run.weights:
        needs.append((run.weights, log("weights", run.description["model"]["weights"])))
    return failure(log for made, log in needs if not Path(made).exists())


def cell_state(cell: Cell, states: dict[str, State]) -> State:
    """Return the state of ``cell``: the first of ``SIGNS`` that one of its runs is in."""
    names = {states[run.path].name for run in cell.runs}
    if not names <= MADE:
        return State(next(name for name in SIGNS if name in names))
    if Path(cell.path).exists():
        return State("diverged" if "diverged" in names else "done")
    logs = [cell.log]
    logs += [run.log("hessian") for run in cell.runs if cell.analysed and not Path(run.hessian).exists()]
    untimed = [run for run in cell.timed if not Path(run.timing).exists()]
    logs += [run.places.log("timing", run.scale, run.row) for run in untimed]
    return failure(logs) or State("waiting")


def summary(title: str, cells: list[Cell], states: dict[str, State]) -> str:
    """Return the line of a table: its cells by state."""
    count = Counter(states[cell.path].name for cell in cells)
    parts = [f"{count[name]} {name} ({sign})" for name, sign in reversed(SIGNS.items()) if count[name]]
    return f"{title}: {len(cells)} cells: {', '.join(parts)}"


def drawn(experiment: Experiment, table: str, cells: list[Cell], states: dict[str, State]) -> Iterator[str]:
    """Yield the map of a table: a line for each row with a sign for each column, in tens; then the columns' names."""
    entries = experiment.tables[table].entries
    rows: dict[str, str] = {}
    for cell in cells:
        rows[cell.spec.row] = rows.get(cell.spec.row, "") + SIGNS[states[cell.path].name]
    width = max(len(entries[row].label) for row in rows)
    for row, signs in rows.items():
        yield f"  {entries[row].label:{width}}  {' '.join(textwrap.wrap(signs, 10))}"
    columns = dict.fromkeys(cell.spec.column for cell in cells)
    if len(columns) > 1:
        named = ", ".join(f"{number}={column}" for number, column in enumerate(columns, start=1))
        room = {"width": 110, "initial_indent": "  columns: ", "subsequent_indent": "    "}
        yield from textwrap.wrap(named, break_on_hyphens=False, **room)


def listed(states: Iterable[State]) -> Iterator[str]:
    """Yield a line for each failed, running, stopped and diverged job: its last words, and its log unless it runs."""
    jobs = Counter((job.name, job.words or job.log, job.log) for job in states if job.words or job.log)
    for state_ in ("failed", "running", "stopped", "diverged"):
        these = [(words, log, count) for (name, words, log), count in jobs.items() if name == state_]
        for words, log, count in these[:LISTED]:
            where = "" if state_ in ("running", "diverged") else f"  ({log})"
            yield f"{state_:8} {words}{where}" + (f"  ({count} wait for it)" if count > 1 else "")
        if len(these) > LISTED:
            yield f"{state_:8} and {len(these) - LISTED} more"


def left(unfinished: list[Run], states: dict[str, State], known: Measurements) -> str:
    """Return how long the ``unfinished`` runs will take, by runs that are finished or under way here."""
    if not unfinished:
        return "all runs are done"
    paces = {run.path: pace for run in unfinished if (pace := states[run.path].pace) is not None}
    under_way = [Measured(run.description, paces[run.path]) for run in unfinished if run.path in paces]
    here = Measurements([*(past for past in known.runs if not past.published), *under_way], known.device)
    seconds, unknown = 0.0, 0
    for run in unfinished:
        each = paces.get(run.path) or here.seconds(run)
        seconds += (run.description["rounds"] - states[run.path].rounds) * (each or 0.0)
        unknown += each is None
    if not seconds:
        return f"{len(unfinished)} runs to make, of unknown length"
    unit = "GPU" if known.device == "cuda" else "core"
    hours = f"{progress.duration(seconds)} of one {unit}"
    if (several := sum(states[run.path].name == "running" for run in unfinished)) > 1:
        hours += f", {progress.duration(seconds / several)} with {several} at a time as now"
    more = f"; {unknown} runs of unknown length" if unknown else ""
    return f"{len(unfinished)} runs to make: {hours}{more}"
