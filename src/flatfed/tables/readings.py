"""Reads and checks the inputs of metrics: run folders, analyses, timing.json, declarations of algorithms."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import pandas as pd

from flatfed import algorithms
from flatfed.errors import DataError, FlatFedError, missing_message
from flatfed.plan.metrics import METRICS, Reading
from flatfed.plan.number import Number
from flatfed.runs import client_accuracies, curvature
from flatfed.runs import record as records
from flatfed.runs import timing as timings
from flatfed.runs.record import AnalysedModel, Digests, RunRecord
from flatfed.runs.run import Run
from flatfed.runs.run_config import differences

#: Columns of metrics.csv that do not depend on the trained models.
COSTS = ("seconds", "download_bytes", "upload_bytes")

Source, Result = TypeVar("Source"), TypeVar("Result")


@dataclass(frozen=True)
class RunReading:
    """The reading of one run, None if it is absent or unfinished, and its ``problem``, or "".

    ``unfinished``: it may still reach its target. ``warning``: of its ``timing`` or Hessian, or "". ``lines``: a digest
    of the metrics of all its rounds, or "".
    """

    reading: Reading | None
    diverged: bool = False
    problem: str = ""
    unfinished: bool = False
    warning: str = ""
    timing: timings.Timing | None = None
    record: RunRecord | None = None
    lines: str = ""


def read_source(number: Number, runs: Sequence[Run], timed: Run | None, so_far: bool = False) -> list[RunReading]:
    """Return what the metric of ``number`` reads of ``runs``, one entry per run, or of the ``timed`` run alone.

    :raises DataError: a file is damaged, changed or of another run, or lacks a column; a line for each run.
    """
    metric = METRICS[number.metric]
    timing = _timing(timed) if timed else RunReading(Reading())
    if timing.reading is None or (timed and not runs):
        return [timing] * max(1, len(runs))

    def read(run: Run) -> RunReading:
        if run.absent:
            return RunReading(None, problem=f"{run.path} has no {records.RECORD}")
        if metric.source == "hessian":
            return _hessian(run, number.metric)
        if metric.source == "clients":
            return _clients(run)
        return records.read_again(partial(_lines, run, number, timing, so_far), so_far)

    return read_all(read, runs)


def read_all(read: Callable[[Source], Result], sources: Iterable[Source]) -> list[Result]:
    """Return ``read(source)`` for all ``sources``.

    :raises DataError: some are refused; the message has a line for each.
    """
    results, refused = [], {}
    for source in sources:
        try:
            results.append(read(source))
        except FlatFedError as error:
            refused |= dict.fromkeys(str(error).splitlines())
    if refused:
        raise DataError("\n".join(refused))
    return results


def _timing(run: Run) -> RunReading:
    """Read timing.json, which all seeds share."""
    path = Path(run.timing)
    try:
        timing = timings.read(path)
    except FileNotFoundError:
        reason = "does not exist; seconds come only from a separate, undisturbed run: flatfed time"
        return RunReading(None, problem=f"{path} {reason}")
    configs = ({**config.deciding_seconds, "seed": run.seed} for config in (timing.config, run.config))
    if different := [key for key, _, _ in differences(*configs)]:
        again = f"rebuild it: snakemake --cores 1 -R {path} -- {path}"
        raise DataError(f"{path}: is of another run than the requested one, by {', '.join(different)}; {again}")
    warning = f"{path}: {timing.warning}" if timing.warning else ""
    seconds = timing.model_dump(include={"seconds_per_round", "training_seconds_per_round"})
    return RunReading(Reading(timing=seconds), warning=warning, timing=timing)


def _hessian(run: Run, metric: str) -> RunReading:
    """Read hessian.json; diverged runs have one, too."""
    path, named = Path(run.hessian), run.in_results
    if not path.is_file():
        return RunReading(None, problem=f"{named.hessian} does not exist")
    hessian = curvature.read(path)
    record = run.check_analysis(path, hessian.model)
    if record is None:
        return RunReading(None, problem=f"{named.path} has no {records.RECORD}")
    if hessian.about.diverged_at is not None:
        problem = f"{named.hessian}: the run diverged in round {hessian.about.diverged_at}"
        return RunReading(Reading(), True, problem, record=record)
    if hessian.estimates(metric) is None:
        return RunReading(None, problem=f"{named.hessian} is without {metric}; delete it to rebuild it")
    warning = "; ".join(f"{named.hessian}: {text}" for text in hessian.warnings_about(metric))
    return RunReading(Reading(hessian=hessian), warning=warning, record=record)


def _clients(run: Run) -> RunReading:
    """Read clients.csv; diverged runs have one, too."""
    path, named = Path(run.clients), run.in_results
    if not path.is_file():
        return RunReading(None, problem=f"{named.clients} does not exist")
    accuracies, model = client_accuracies.read(path)
    record = run.read_record()
    if record is None:
        return RunReading(None, problem=f"{named.path} has no {records.RECORD}")
    digests = Digests.of_run(record, model)
    run.check_analysis(path, AnalysedModel(name=record.name, scale=record.config.scale, digests=digests))
    if record.diverged_at is not None:
        return RunReading(Reading(), True, f"{named.path} diverged in round {record.diverged_at}", record=record)
    return RunReading(Reading(clients=accuracies), record=record)


def _lines(run: Run, number: Number, timing: RunReading, so_far: bool) -> RunReading:
    """Read the accuracy and the columns that the metric of ``number`` takes from a run, with the ``timing`` of its row.

    :raises DataError: run.json or metrics.csv is damaged, changed or of another run, or lacks a column.
    """
    metric, folder, named = METRICS[number.metric], Path(run.path), Path(run.in_results.path)
    of_run = partial(RunReading, warning=timing.warning, timing=timing.timing)
    record = run.read_record(so_far)
    if record is None:
        return of_run(None, problem=f"{named} has no {records.RECORD}")
    if not (folder / record.metrics).is_file():
        return of_run(None, problem=f"{named} has no {records.METRICS}")
    done, diverged_at, names = record.rounds_done, record.diverged_at, ("round", number.accuracy, *metric.columns)
    if diverged_at is not None and not done:  # metrics.csv lacks the columns of evaluated rounds
        record.check_files(folder, records.METRICS)
        history = {name: [] for name in names}
    else:
        history = read_history(folder, record, names).reset_index().to_dict("list")
    reading = Reading(
        history=history,
        window=number.window,
        smoothing=number.smoothing,
        target=number.target,
        accuracy=number.accuracy,
        timing=timing.reading.timing,
        algorithm=algorithms.build(run.config.update.name, run.config.update.params) if metric.declares else None,
    )
    if diverged_at is not None:
        when = f"in round {diverged_at}" if done else "at once"
        return of_run(reading, True, f"{named} diverged {when}", record=record)
    measured = {column: values for column, values in history.items() if column not in COSTS}
    lines = hashlib.sha256(repr(measured).encode()).hexdigest()  # not as JSON: numbers may be NaN
    if done < number.rounds:
        problem = f"{named} has done {done} of {number.rounds} rounds"
        return of_run(reading if so_far else None, False, problem, unfinished=True, record=record, lines=lines)
    broken = any(not math.isfinite(entry) for column in metric.columns for entry in history[column])
    problem = f"{named / records.METRICS} holds a non-finite number" if broken else ""
    return of_run(reading, broken, problem, record=record, lines=lines)


def read_history(folder: Path, record: RunRecord, columns: Iterable[str]) -> pd.DataFrame:
    """Return a run's lines by round, as floats, NaN for an empty field: no client had evaluation images.

    :raises DataError: the file of metrics in ``folder`` is not that of ``record``, lacks one of ``columns`` or is
        damaged, or its rounds do not increase to the last one.
    """
    record.check_files(folder, record.metrics)
    path = folder / record.metrics
    try:
        lines = pd.read_csv(path, index_col="round", dtype=str).astype(float).rename(index=int)
    except ValueError as problem:
        raise DataError(f"{path}: {problem}; {records.REMEDY}") from None
    for column in columns:
        if column not in (header := ["round", *lines.columns]):
            raise DataError(missing_message("column", column, header, str(path)))
    if not (lines.index.is_monotonic_increasing and lines.index.is_unique):
        raise DataError(f"{path}: its rounds do not increase; {records.REMEDY}")
    if (last := max(lines.index, default=0)) != record.rounds_done:
        rounds = f"{records.record_name(record.metrics)} says rounds_done {record.rounds_done}"
        raise DataError(f"{path}: ends with round {last}, but {rounds}")
    return lines


def rounding(record: RunRecord) -> list[str | None]:
    """Return the settings of a run that affect rounding, in words, or None."""
    executor = record.executor and f"{record.executor} executor"
    tf32 = {True: "TF32", False: "no TF32"}.get(record.tf32)
    torch = (record.libraries or {}).get("torch")
    return [executor, record.precision, tf32, record.device, chip(record), torch and f"torch {torch}"]


def chip(record: RunRecord) -> str | None:
    """Return the name of the GPU or the processor that trained a run."""
    return (record.host or {}).get("gpu" if record.device == "cuda" else "processor")
