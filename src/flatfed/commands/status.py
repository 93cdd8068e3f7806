"""``flatfed status``: which cells of which tables are done, which runs are under way or failed, and the hours left."""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatfed.commands.arguments import _add, _add_config

if TYPE_CHECKING:
    from flatfed.commands.plan_costs import Costs
    from flatfed.experiment import Cell, Experiment, Run

#: States of runs and cells, and how a cell of each is drawn; a cell is in the first state that any of its runs is in.
SIGNS = {"failed": "!", "running": ">", "stopped": "=", "waiting": ".", "done": "#"}

#: A log that has not changed for so long is no sign of life, unless its rounds take longer; in seconds.
QUIET = 600.0

#: What the last line of a training's log says: a round (see flatfed.engine.progress), an error, or that it was told to
#: stop.
ROUND = re.compile(r"round (?P<done>\d+)/\d+ .*?(?P<pace>[\d.e+-]+) s a round  .* left")
ERROR = re.compile(r"flatfed( \w+)?: |\w+(\.\w+)*(Error|Exception)\b")
STOPPED = re.compile(r"stopped by|flatfed \w+: interrupted")


@dataclass(frozen=True)
class State:
    """``name`` one of ``SIGNS``; ``said`` the last line of the ``log``; ``rounds`` that are behind the run, about."""

    name: str
    said: str = ""
    log: str = ""
    rounds: int = 0


def add(commands: Any) -> None:
    """Add the sub-command to the command line."""
    signs = ", ".join(f"{sign} {name}" for name, sign in SIGNS.items())
    sub = _add(
        commands,
        "status",
        "show which cells are done, running or failed, and the hours left",
        "Reads results and logs; may be called at any time, beside a running Snakemake, on any host that sees the\n"
        f"folder. Each table is drawn as a map of its rows and columns: {signs}.\n"
        "Stopped: begun, and its log has been silent for ten minutes and three rounds; Snakemake goes on with it.",
        "python -m flatfed status fedsmoo2023_T1 --scale paper",
    )
    sub.add_argument("tables", nargs="*", metavar="TABLE", help="tables (default: those of config.yaml)")
    sub.add_argument("--scale", choices=("preview", "paper"), help="the scale (default: config.yaml's)")
    _add_config(sub)


def status(options: argparse.Namespace) -> None:
    """Print the state of the tables that the command line asks for.

    :raises ConfigError: there is no such table.
    :raises DataError: a run's record is damaged.
    """
    from flatfed.commands import configuration, plan

    experiment = configuration.load(options.config)
    scale = options.scale or experiment.scale
    asked = [(name, None) for name in options.tables] or experiment.selected()
    tables = {name: experiment.cells(scale, name, columns) for name, columns in asked}
    runs = {run.path: run for cells in tables.values() for cell in cells for run in cell.runs}
    now = time.time()
    states = {path: state(run, now) for path, run in runs.items()}
    costs = plan.known(experiment, scale)
    for name, cells in tables.items():
        print("\n".join(lines(f"{name}, {scale} scale", cells, states)))
        print("\n".join(drawn(experiment, name, cells, states)))
    needed = [run for path, run in runs.items() if states[path].name != "done"]
    print("\n".join(ended(runs.values(), states, needed, costs)))


def state(run: Run, now: float) -> State:
    """Return the state of ``run`` at the time ``now`` (seconds since 1970), from its folder and its log."""
    from flatfed.commands import plan

    if plan.state(run) == "finished":
        return State("done")
    log = Path("logs", run.scale, "train", *Path(run.path).parts[-4:]).with_suffix(".log")
    try:
        text, age = log.read_text(encoding="utf-8", errors="replace"), now - log.stat().st_mtime
    except OSError:
        return State("waiting")
    said = (re.split(r"[\r\n]+", text.strip()) or [""])[-1].strip()
    rounds = [int(found["done"]) for found in ROUND.finditer(text)]
    done = rounds[-1] if rounds else 0
    if ERROR.match(said) and not STOPPED.search(said):
        return State("failed", said, str(log), done)
    found = ROUND.search(said)
    quiet = max(QUIET, 3 * float(found["pace"])) if found else QUIET
    return State("running" if age < quiet and not STOPPED.search(said) else "stopped", said, str(log), done)


def of_cell(cell: Cell, states: dict[str, State]) -> str:
    """Return the state of ``cell``: the first of ``SIGNS`` that one of its runs is in, done where it is made."""
    names = {states[run.path].name for run in cell.runs}
    if names <= {"done"}:
        return "done" if Path(cell.path).exists() else "waiting"
    return next(name for name in SIGNS if name in names)


def lines(title: str, cells: list[Cell], states: dict[str, State]) -> Iterator[str]:
    """Yield the line of a table: its cells by state."""
    count = Counter(of_cell(cell, states) for cell in cells)
    yield f"{title}: {len(cells)} cells: " + ", ".join(
        f"{count[name]} {name} ({SIGNS[name]})" for name in reversed(SIGNS) if count[name]
    )


def drawn(experiment: Experiment, table: str, cells: list[Cell], states: dict[str, State]) -> Iterator[str]:
    """Yield the map of a table: a line a row, a sign a column, runs of columns under their number."""
    labels = {name: row.label for name, row in experiment.tables[table].entries.items()}
    width = max(len(labels[cell.spec["row"]]) for cell in cells)
    rows: dict[str, str] = {}
    for cell in cells:
        rows[cell.spec["row"]] = rows.get(cell.spec["row"], "") + SIGNS[of_cell(cell, states)]
    for row, signs in rows.items():
        groups = " ".join(signs[k : k + 10] for k in range(0, len(signs), 10))
        yield f"  {labels[row]:{width}}  {groups}"


def ended(runs: Iterable[Run], states: dict[str, State], needed: list[Run], costs: Costs) -> Iterator[str]:
    """Yield what is said at the end: runs under way or failed with their last words, then the hours left."""
    for name in ("failed", "running", "stopped"):
        for run in runs:
            if (found := states[run.path]).name == name:
                place = "" if name == "running" else f"  ({found.log})"
                yield f"{name:8} {found.said or run.path}{place}"
    from flatfed.engine.progress import duration

    seconds, unknown = 0.0, 0
    for run in needed:
        each, how = costs.seconds(run)
        seconds += (run.description["rounds"] - states[run.path].rounds) * (each or 0.0)
        unknown += how == "unknown"
    if not needed:
        yield "all runs are done"
        return
    unit = "GPU" if costs.device == "cuda" else "core"
    left = f"{duration(seconds)} of one {unit}" if seconds else "unknown"
    more = f"; {unknown} runs of unknown length (`flatfed plan --calibrate`)" if unknown and seconds else ""
    yield f"{len(needed)} runs to make: {left}{more}"
