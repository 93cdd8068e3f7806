"""``flatfed status``.

Prints a map of rows and columns for each table, also while Snakemake runs:
failed !, running >, stopped =, waiting ., diverged x, done #.
The next call of Snakemake resumes stopped runs; without a checkpoint, they begin again. Runs of other settings,
versions or sources follow, and failed jobs with the last lines of their logs.
--watch shows a bar, the accuracy and the time left of each running training instead, until Ctrl-C.

example:
  flatfed status fedsmoo2023_T1 --scale paper
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from flatfed.commands import arguments, configuration
from flatfed.engine.job import progress
from flatfed.plan import Experiment, Run
from flatfed.plan.number import Number, by_cell, runs_of
from flatfed.plan.numbers import numbers
from flatfed.runs import lock, record, store, versions
from flatfed.runs.paths import Paths

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


ARGUMENTS = [*arguments.TABLES, arguments.flag("--watch", "bars of the running trainings, until Ctrl-C")]


def run(options: argparse.Namespace) -> None:
    """Print the states of the requested tables; ConfigError if there is no such table."""
    experiment = configuration.load(options.config)
    scale, requested = configuration.requested_tables(experiment, options)
    for line in [] if options.tables else experiment.left_out(scale, experiment.requested):
        print(line, file=sys.stderr)
    tables = {name: by_cell(numbers(experiment, scale, name, columns)) for name, columns in requested.items()}
    runs = runs_of(number for cells in tables.values() for cell in cells.values() for number in cell)
    if options.watch:
        from flatfed.commands.watch import watch

        return watch(runs)
    failed = failures(experiment.paths, scale)
    states = {path: state(run, failed) for path, run in runs.items()}
    for name, cells in tables.items():
        of_cells = [cell_state(cell, states) for cell in cells.values()]
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
    state_on_disk = "" if held else store.state(run)
    if state_on_disk == "damaged":
        return State("failed", f"{run.record}: not the record of a run; delete it to train the run again")
    if state_on_disk == "finished":
        finished = record.read_finished(folder)
        texts = [f"in round {finished.diverged_at}"] if finished.diverged_at else []
        texts += filter(None, [versions.remarks(finished)])
        return State("diverged" if finished.diverged_at else "done", f"{run.path}: {'; '.join(texts)}" if texts else "")
    position = progress.read(folder)
    if held:
        return State("running", f"{run.path}: {position or 'begins'}")
    if (log := run.log("train")) in failed:
        return State("failed", failed[log])
    if position:
        lost = "" if (folder / record.CHECKPOINT).exists() else "; without a checkpoint, it begins again"
        return State("stopped", f"{run.path}: after round {position.round}{lost}")
    if state_on_disk == "stale":
        reasons = store.differences(record.read(run.record), run.config)
        return State("waiting", f"{run.path}: {'; '.join(reasons)}; it will be trained again")
    return State("waiting")


def failures(paths: Paths, scale: str) -> dict[str, str]:
    """Return {log: last line} of the logs that end in an error, of jobs whose output does not exist."""
    errors = {}
    for log in (file for part in (scale, "fetch") for file in sorted(Path(paths.logs, part).rglob("*.log"))):
        with contextlib.suppress(OSError):
            line = last_line(log.read_text(encoding="utf-8", errors="replace"))
            made = (output := paths.output(log)) and Path(output).exists()
            if ERROR.match(line) and not STOPPED.search(line) and not made:
                errors[str(log)] = f"{line}  ({log})"
    return errors


def last_line(log: str) -> str:
    """Return the last line of the text ``log``; updates of a progress bar count as lines."""
    return re.split(r"[\r\n]+", log.strip())[-1].strip()


def cell_state(cell: list[Number], states: Mapping[str, State]) -> str:
    """Return the state of a cell of these numbers, "waiting" if one of its analyses or times is missing."""
    first = min((states[path].name for path in runs_of(cell)), key=[*SIGNS].index, default="done")
    files = [file for number in cell for file in (*number.analyses, *(run.timing for run in number.all_timed))]
    return "waiting" if first in MADE and not all(Path(file).exists() for file in files) else first


def table_map(experiment: Experiment, table: str, cells: Iterable[tuple[str, str]], states: list[str]) -> Iterator[str]:
    """Yield the map of a table with ``cells`` (column, row): a line of signs per row, in tens, then the columns."""
    rows: dict[str, str] = defaultdict(str)
    for (_, row), state in zip(cells, states, strict=True):
        rows[experiment.tables[table].rows[row].label] += SIGNS[state]
    width = max(map(len, rows))
    for label, signs in rows.items():
        yield f"  {label:{width}}  {' '.join(textwrap.wrap(signs, 10))}"
    columns = dict.fromkeys(column for column, _ in cells)
    if len(columns) > 1:
        yield "  columns: " + ", ".join(f"{number}={column}" for number, column in enumerate(columns, start=1))
