"""What a cell's metric reads, checked: run folders, timing.json, hessian.json, what an algorithm declares.

A file of another run than the one asked for is refused: by its description, its data, and the sums of its record.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from flatfed import algorithms
from flatfed.errors import DataError, absent
from flatfed.experiment.model import CellSpec, Sources
from flatfed.papers.quantity import TEST, Metric, Reading
from flatfed.runs import curvature, identity
from flatfed.runs import record as runs
from flatfed.runs import timing as timings
from flatfed.runs.run import Run

Source, Result = TypeVar("Source"), TypeVar("Result")

#: Fields of timing.json that metrics read.
TIMES = ("seconds_per_round", "training_seconds_per_round")


@dataclass(frozen=True)
class RunReading:
    """What there is of one run: its reading (None: absent or unfinished), whether it diverged, what is wrong or "".

    ``unfinished``: rounds are to come, after which a target that is not reached yet may be.
    ``warning`` is what the maker of the numbers warns of, or "". ``made_on``: where seconds were measured,
    ``executor``: by which one.
    """

    reading: Reading | None
    diverged: bool = False
    problem: str = ""
    unfinished: bool = False
    warning: str = ""
    made_on: str = ""
    executor: str = ""
    record: runs.RunRecord | None = None


def read_sources(metric: Metric, spec: CellSpec, sources: Sources, so_far: bool = False) -> list[RunReading]:
    """Return what ``metric`` reads of a row's ``sources`` for the cell ``spec``, one entry per run.

    ``so_far``: read unfinished runs, too.

    :raises DataError: a file is there but damaged, or lacks what the metric reads.
    """
    common = {"window": spec.window, "target": spec.target, "accuracy": spec.accuracy}
    if metric.source == "declared":
        return [RunReading(Reading(algorithm=algorithms.build(*sources.update)))]
    if metric.source == "given":
        return [RunReading(Reading(given=sources.given))]
    timing = _timing(sources.timed) if sources.timed else RunReading(Reading())
    if sources.timed and not metric.needs_runs:
        return [timing]
    if timing.reading is None:
        return [timing] * len(sources.runs)
    timed = {"warning": timing.warning, "made_on": timing.made_on, "executor": timing.executor}

    def read(run: Run) -> RunReading:
        if metric.source == "analysis":
            return _hessian(run, spec.metric)
        of_run = read_run(run, spec.rounds, metric.columns, spec.accuracy, so_far=so_far)
        algorithm = algorithms.build(**run.description["update"]) if metric.declares else None
        more = {**common, "timing": timing.reading.timing, "algorithm": algorithm}
        return replace(of_run, reading=of_run.reading and replace(of_run.reading, **more), **timed)

    return read_all(read, sources.runs)


def read_all(read: Callable[[Source], Result], sources: Iterable[Source]) -> list[Result]:
    """Return ``read(source)`` of all ``sources``.

    :raises DataError: some are refused; the message has a line for each.
    """
    results, refused = [], {}
    for source in sources:
        try:
            results.append(read(source))
        except DataError as error:
            refused |= dict.fromkeys(str(error).splitlines())
    if refused:
        raise DataError("\n".join(refused))
    return results


def _timing(run: Run) -> RunReading:
    """Read timing.json of ``run``, whatever its seed."""
    path, description = Path(run.timing), run.description
    try:
        timing = timings.read(path)
    except FileNotFoundError:
        why = "has not been made; seconds are taken from an undisturbed run of its own only: flatfed time"
        return RunReading(None, problem=f"{path} {why}")
    timed = {**timing.description, "seed": description["seed"]}
    if differing := [key for key, _, _ in identity.differences(timed, description)]:
        again = f"make it again: snakemake --cores 1 -R {path} -- {path}"
        raise DataError(f"{path}: is of another run than is asked for, by {', '.join(differing)}; {again}")
    warning = f"{path}: {timing.warning}" if timing.warning else ""
    seconds = {name: getattr(timing, name) for name in TIMES}
    return RunReading(Reading(timing=seconds), warning=warning, made_on=timing.place, executor=timing.executor)


def _hessian(run: Run, metric: str) -> RunReading:
    """Read hessian.json, which a run that diverged has too."""
    path = Path(run.hessian)
    if not path.is_file():
        return RunReading(None, problem=f"{path} has not been made")
    hessian = curvature.read(path)
    record = run.check_analysis(path, hessian.model)
    if record is None:
        return RunReading(None, problem=f"{run.path} has no {runs.RECORD}")
    if hessian.about.diverged_at is not None:
        problem = f"{path}: the run diverged in round {hessian.about.diverged_at}"
        return RunReading(Reading(), True, problem, record=record)
    if not hessian.has(metric):
        return RunReading(None, problem=f"{path} is without {metric}; delete it to make it again")
    return RunReading(Reading(analysis=hessian), record=record)


def read_run(
    run: Run, rounds: int, columns: tuple[str, ...], accuracy: str = TEST, *, so_far: bool = False
) -> RunReading:
    """Read the lines of a run that has ``rounds`` rounds when it is finished.

    ``so_far``: read those of an unfinished run, too.
    The reading's history has ``round``, ``accuracy`` and ``columns``, one entry per evaluated round.

    :raises DataError: run.json or metrics.csv is there but damaged, of another run or not what was written, or a column
        is absent.
    """
    folder = Path(run.path)
    record = run.read_record(so_far)
    if record is None:
        return RunReading(None, problem=f"{folder} has no {runs.RECORD}")
    lines = runs.METRICS if (folder / runs.RECORD).is_file() else runs.LINES_SO_FAR
    if not (folder / lines).is_file():
        return RunReading(None, problem=f"{folder} has no {runs.METRICS}")
    done, diverged_at, read = record.rounds_done, record.diverged_at, ("round", accuracy, *columns)
    if diverged_at is not None and not done:  # before any line: nor has it the columns that its lines would have had
        record.check_files(folder, runs.METRICS)
        empty = Reading(history={name: [] for name in read})
        return RunReading(empty, True, f"{folder} diverged at once", record=record)
    history = history_of(folder, record, read, lines)
    if diverged_at is not None:
        return RunReading(Reading(history=history), True, f"{folder} diverged in round {diverged_at}", record=record)
    if done < rounds:
        reading = Reading(history=history) if so_far else None
        problem = f"{folder} has done {done} of {rounds} rounds"
        return RunReading(reading, False, problem, unfinished=True, record=record)
    broken = any(not math.isfinite(number) for column in columns for number in history[column])
    problem = f"{folder / runs.METRICS} holds a non-finite number" if broken else ""
    return RunReading(Reading(history=history), broken, problem, record=record)


def history_of(
    folder: Path, record: runs.RunRecord, columns: tuple[str, ...], name: str = runs.METRICS, *, every: bool = False
) -> dict[str, list[float]]:
    """Return the named columns of a run's lines as lists of floats (rounds as ints); ``every``: all others, too.

    An empty field of another column is NaN: a round in which no node had images of its own to be evaluated on.

    :raises DataError: the file ``name`` in ``folder`` is not the one that ``record`` was written with or does not end
        with its round, rounds do not increase, a column is absent, or a field is not a number; the message names file,
        line and column.
    """
    record.check_files(folder, name)
    path = folder / name
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        there = reader.fieldnames or ()
        for column in columns:
            if column not in there:
                raise DataError(absent("column", column, there, str(path)))
        history: dict[str, list[float]] = {column: [] for column in (there if every else columns)}
        last = 0
        for row in reader:
            for column, numbers in history.items():
                blank = row[column] == "" and column not in columns
                try:
                    numbers.append(int(row[column]) if column == "round" else float("nan" if blank else row[column]))
                except (TypeError, ValueError):
                    place = f"{path}: line {reader.line_num}: {column}"
                    raise DataError(f"{place}: {row[column]!r} is not a number") from None
            before, last = last, history["round"][-1]
            if last <= before:
                raise DataError(f"{path}: line {reader.line_num}: round {last} after round {before}; {runs.AGAIN}")
    done = record.rounds_done
    if last != done:
        raise DataError(
            f"{path}: ends with round {last}, but {runs.record_beside(name)} beside it says rounds_done {done}"
        )
    return history


def rounding(record: runs.RunRecord) -> list[str | None]:
    """Return what decides how the numbers of a run were rounded, in words; None for what its record does not say."""
    chip = (record.host or {}).get("gpu" if record.device == "cuda" else "processor")
    torch = (record.libraries or {}).get("torch")
    return [
        record.executor and f"{record.executor} executor",
        *(record.precision, {True: "TF32", False: "no TF32"}.get(record.tf32), record.device, chip),
        torch and f"torch {torch}",
    ]


def best(reading: Reading) -> float | None:
    """Return a run's best finite accuracy, of the kind targets are held against: an extra that no table prints."""
    return max((number for number in reading.history.get(reading.accuracy, ()) if math.isfinite(number)), default=None)
