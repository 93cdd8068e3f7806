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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flatfed.commands import arguments
from flatfed.workflow.closing import last_line

if TYPE_CHECKING:
    from flatfed.commands.plan_costs import Costs
    from flatfed.experiment import Cell, Experiment, Run

#: States of runs and cells, and how a cell of each is drawn; a cell is in the first state that any of its runs is in.
SIGNS = {"failed": "!", "running": ">", "stopped": "=", "waiting": ".", "diverged": "x", "done": "#"}

#: States of what is there; a training that diverged is, up to the round in which it did.
MADE = {"diverged", "done"}

#: A training of another host that has said nothing for so long, in seconds, and for three rounds, gives no sign of
#: life. On this host, and where locks go over the network, its lock is asked.
QUIET = 600.0

#: States listed one by one at the end, at most so many of each.
LISTED = 12

#: What the last line of a log says: a round (see flatfed.engine.job.progress), an error, or that it was told to stop.
ROUND = re.compile(r"round (?P<done>\d+)/\d+ .*?(?P<pace>[\d.e+-]+) s a round  .* left")
ERROR = re.compile(r"flatfed( \w+)?: |\w+(\.\w+)*(Error|Exception)\b")
STOPPED = re.compile(r"stopped by|flatfed \w+: interrupted")
ENDED = re.compile(r"(done in|diverged at round) ")


@dataclass(frozen=True)
class State:
    """``name`` one of ``SIGNS``; ``said`` the last line of the ``log``; ``rounds`` that are behind the run, about.

    ``pace``: seconds of one of its rounds, where it runs and has made one.
    """

    name: str
    said: str = ""
    log: str = ""
    rounds: int = 0
    pace: float | None = None


SIGNED = ", ".join(f"{sign} {name}" for name, sign in SIGNS.items())

DETAIL = f"""\
Reads results and logs; may be called at any time, beside a running Snakemake, on any host that sees the
folder. Each table is drawn as a map of its rows and columns: {SIGNED}.
Stopped: begun, and no process is at it; the next call of Snakemake goes on with it. Failed are also runs
and cells whose data, Hessian or own job failed. `watch python -m flatfed status` looks every two seconds."""
EXAMPLE = "python -m flatfed status fedsmoo2023_T1 --scale paper"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    sub.add_argument(
        "tables",
        nargs="*",
        metavar="TABLE",
        help="tables, of the columns that config.yaml names if any (default: its tables)",
    )
    sub.add_argument("--scale", choices=("preview", "paper"), help="the scale (default: config.yaml's)")
    arguments.add_config(sub)


def run(options: argparse.Namespace) -> None:
    """Print the state of the tables that the command line asks for.

    :raises ConfigError: there is no such table.
    A run whose record is damaged has failed; other records that are damaged are named on stderr.
    """
    from flatfed.commands import configuration, plan
    from flatfed.experiment import selection

    experiment = configuration.load(options.config)
    scale = options.scale or selection.scale_of(experiment, options.tables)
    asked = selection.named(experiment, options.tables) or experiment.selected(scale)
    for line in [] if options.tables else experiment.left_out(scale):
        print(line, file=sys.stderr)
    tables = {name: experiment.cells(scale, name, columns) for name, columns in asked}
    runs = {run.path: run for cells in tables.values() for cell in cells for run in cell.runs}
    now = time.time()
    states = {path: state(run, now) for path, run in runs.items()}
    failed = {path: found for path, run in runs.items() if states[path].name == "waiting" and (found := before(run))}
    states |= failed
    marked = {cell.path: of_cell(cell, states) for cells in tables.values() for cell in cells}
    for name, cells in tables.items():
        print("\n".join(lines(f"{name}, {scale} scale", cells, marked)))
        print("\n".join(drawn(experiment, name, cells, marked)))
    needed = [run for path, run in runs.items() if states[path].name not in MADE]
    costs, left_out = plan.known(experiment, scale)
    hours = left(needed, states, costs) if runs else ["they need no runs"]
    print("\n".join([*listed([*states.values(), *marked.values()]), *hours]))
    named = tuple(f"{path}/" for path, found in states.items() if found.name == "failed")
    for line in left_out:
        if not line.startswith(named):
            print(line, file=sys.stderr)


def state(run: Run, now: float) -> State:
    """Return the state of ``run`` at the time ``now`` (seconds since 1970), from its folder and its log."""
    from flatfed.commands import plan
    from flatfed.engine.job import progress
    from flatfed.runs import lock
    from flatfed.runs import record as records

    folder, at = Path(run.path), progress.read(Path(run.path))
    held = lock.is_held(folder)
    there = "" if held else plan.state(run)
    if there == "damaged":
        said = f"{folder / 'run.json'}: not the record of a run; delete it, and the run is made again"
        return State("failed", said, str(folder))
    if there == "finished":
        broke = records.read_finished(folder).diverged_at
        return State("done") if broke is None else State("diverged", f"{run.path}: in round {broke}", str(folder))
    own = Path(run.log("train"))
    said, log, written, done = last(own, own.with_name("seeds.log"))
    if at is not None:
        elsewhere = at["host"] != socket.gethostname()
        with contextlib.suppress(FileNotFoundError):  # it has just ended
            written = (folder / progress.STATE).stat().st_mtime
        alive = held or (elsewhere and now - written < max(QUIET, 3 * (at["pace"] or 0.0)))
        if alive or not ERROR.match(said):
            said = f"{at['run']}: {progress.told(at)}"
            return State("running" if alive else "stopped", said, log, at["round"], at["pace"] if alive else None)
    if held:
        return State("running", said or f"{run.path}: begins", log, done)
    if not log or (at is None and ENDED.search(said)):  # the log of a run whose results were taken away
        return State("waiting")
    if ERROR.match(said) and not STOPPED.search(said):
        return State("failed", said, log, done)
    found = ROUND.search(said)
    quiet = max(QUIET, 3 * float(found["pace"])) if found else QUIET
    return State("running" if now - written < quiet and not STOPPED.search(said) else "stopped", said, log, done)


def last(*logs: Path) -> tuple[str, str, float, int]:
    """Return of the newest of ``logs``: its last line, its name, when it was written (seconds since 1970), and the
    last round that it speaks of; ("", "", 0, 0) where there is none."""
    found = []
    for log in logs:
        with contextlib.suppress(OSError):
            found.append((log.stat().st_mtime, log, log.read_text(encoding="utf-8", errors="replace")))
    if not found:
        return "", "", 0.0, 0
    written, log, text = max(found)
    rounds = [int(match["done"]) for match in ROUND.finditer(text)]
    return last_line(text), str(log), written, rounds[-1] if rounds else 0


def failure(*logs: Path) -> State | None:
    """Return the state of a job whose ``logs`` end in an error, None where none does."""
    for log in logs:
        said, name, _, _ = last(log)
        if ERROR.match(said) and not STOPPED.search(said):
            return State("failed", said, name)
    return None


def before(run: Run) -> State | None:
    """Return the failure of what ``run`` waits for: its data, its partition, its pre-trained weights."""
    log, named = run.places.log, run.description["model"].get("weights")
    needs = [
        (run.manifest, log("fetch", run.dataset)),
        (run.partition, log("partition", run.scale, f"{run.protocol}/{run.split}/seed{run.seed}")),
        *([(run.weights, log("weights", named))] if named else []),
    ]
    return failure(*(Path(log) for made, log in needs if not Path(made).exists()))


def of_cell(cell: Cell, states: dict[str, State]) -> State:
    """Return the state of ``cell``: the first of ``SIGNS`` that one of its runs is in."""
    names = {states[run.path].name for run in cell.runs}
    if names <= MADE:
        if Path(cell.path).exists():
            return State("diverged" if "diverged" in names else "done")
        logs = [cell.log]
        logs += [run.log("hessian") for run in cell.runs if cell.analysed and not Path(run.hessian).exists()]
        untimed = [run for run in cell.timed if not Path(run.timing).exists()]
        logs += [run.places.log("timing", run.scale, run.row) for run in untimed]
        return failure(*map(Path, logs)) or State("waiting")
    return State(next(name for name in SIGNS if name in names))


def lines(title: str, cells: list[Cell], marked: dict[str, State]) -> Iterator[str]:
    """Yield the line of a table: its cells by state."""
    count = Counter(marked[cell.path].name for cell in cells)
    yield f"{title}: {len(cells)} cells: " + ", ".join(
        f"{count[name]} {name} ({SIGNS[name]})" for name in reversed(SIGNS) if count[name]
    )


def drawn(experiment: Experiment, table: str, cells: list[Cell], marked: dict[str, State]) -> Iterator[str]:
    """Yield the map of a table: a line a row, a sign a column in tens, then the columns by name."""
    labels = {name: row.label for name, row in experiment.tables[table].entries.items()}
    width = max(len(labels[cell.spec.row]) for cell in cells)
    rows: dict[str, str] = {}
    for cell in cells:
        rows[cell.spec.row] = rows.get(cell.spec.row, "") + SIGNS[marked[cell.path].name]
    for row, signs in rows.items():
        groups = " ".join(signs[k : k + 10] for k in range(0, len(signs), 10))
        yield f"  {labels[row]:{width}}  {groups}"
    columns = dict.fromkeys(cell.spec.column for cell in cells)
    if len(columns) > 1:
        named = ", ".join(f"{number}={column}" for number, column in enumerate(columns, start=1))
        room = {"width": 110, "initial_indent": "  columns: ", "subsequent_indent": "    "}
        yield from textwrap.wrap(named, break_on_hyphens=False, **room)


def listed(states: Iterable[State]) -> Iterator[str]:
    """Yield a line for each failed, running, stopped and diverged job: its last words, and its log unless it runs."""
    said = Counter((found.name, found.said or found.log, found.log) for found in states if found.said or found.log)
    for name in ("failed", "running", "stopped", "diverged"):
        these = [(words, log, count) for (kind, words, log), count in said.items() if kind == name]
        for words, log, count in these[:LISTED]:
            held_up = f"  ({count} wait for it)" if count > 1 else ""
            yield f"{name:8} {words}" + ("" if name in ("running", "diverged") else f"  ({log})") + held_up
        if len(these) > LISTED:
            yield f"{name:8} and {len(these) - LISTED} more"


def left(needed: list[Run], states: dict[str, State], costs: Costs) -> Iterator[str]:
    """Yield how long the ``needed`` runs will take, from what was measured and from those under way."""
    from flatfed.commands.plan_costs import Costs
    from flatfed.commands.plan_measured import Measured
    from flatfed.engine.job.progress import duration

    if not needed:
        yield "all runs are done"
        return
    going = {run.path: pace for run in needed if (pace := states[run.path].pace) is not None}
    paces = [
        Measured(run.description, going[run.path], costs.device, "", 0, None, None)
        for run in needed
        if run.path in going
    ]
    costs = Costs([*costs.known, *paces], costs.device, costs.training, costs.test)
    seconds, unknown = 0.0, 0
    for run in needed:
        each, how = (going[run.path], "measured") if run.path in going else costs.seconds(run)
        seconds += (run.description["rounds"] - states[run.path].rounds) * (each or 0.0)
        unknown += how == "unknown"
    if not seconds:
        yield f"{len(needed)} runs to make, of unknown length (`flatfed plan --calibrate` measures)"
        return
    unit = "GPU" if costs.device == "cuda" else "core"
    told = f"{duration(seconds)} of one {unit}"
    if (several := sum(states[run.path].name == "running" for run in needed)) > 1:
        told += f", {duration(seconds / several)} with {several} at a time as now"
    more = f"; {unknown} runs of unknown length (`flatfed plan --calibrate` measures)" if unknown else ""
    yield f"{len(needed)} runs to make: {told}{more}"
