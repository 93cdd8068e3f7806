"""Computes a cell: mean and spread of a metric over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from flatfed.engine import versions
from flatfed.errors import DataError
from flatfed.experiment.model import CellSpec
from flatfed.papers.metrics import METRICS, RELATIVES, Metric, unit_of
from flatfed.runs import uncertainty
from flatfed.tables.cell import Cell
from flatfed.tables.readings import RunReading, read_sources, rounding

#: A number per seed, or None.
Numbers = list[float | None]


def compute(spec: CellSpec, *, so_far: bool = False) -> Cell:
    """Return the cell that ``spec`` describes; ``so_far``: also read unfinished runs, for targets that they reached.

    :raises DataError: a file is damaged, changed, or of another run, or seeds were trained by different code. The
        message has a line per refused run.
    """
    where = f"cell {spec.table}/{spec.column}/{spec.row}"
    metric = METRICS[spec.metric]
    relative = spec.relative or metric.relative
    ours = _by_seed(read_sources(metric, spec, spec.sources, so_far), spec)
    bases = _by_seed(read_sources(metric, spec, spec.base_sources, so_far), spec) if ours and relative else []
    readings = [run for runs in (*ours, *bases) for run in runs]
    _check_paired(ours, bases, spec.seeds, where)
    if len(machines := sorted({run.made_on for run in readings if run.made_on})) > 1:
        raise DataError(f"{where}: seconds of {' and of '.join(machines)} do not compare; time both on one machine")
    row_values = [_number(metric, runs) for runs in ours]
    base_values = [_number(metric, runs) for runs in bases]
    values = _relative_to(base_values, row_values, relative, where) if relative else row_values
    records = [run.record for run in readings if run.record]
    begun = [run for run in readings if run.unfinished and run.reading]
    waiting = [run.reading.history["round"] for run in begun if _number(metric, [run]) is None]
    status = _status(values, readings, bool(waiting))
    numbers = [value for value in values if value is not None]
    if status == "ok":
        versions.check_same(records, where)
    value = statistics.fmean(numbers) if status == "ok" else None
    spread = statistics.stdev(numbers) if status == "ok" and len(numbers) > 1 else None
    if spread is not None and not math.isfinite(spread):
        raise DataError(f"{where}: the spread over seeds is not a finite number: values {values}")
    sources = [made for run in readings for made in (run.record, run.timing) if made]
    by_run = ((made.config.ids.name, versions.changes(made.config, made.versions)) for made in sources)
    outdated = {name: text for name, text in by_run if text}
    complete = all(run.reading is not None for run in readings)
    seeds_read = sum(all(run.reading is not None for run in runs) for runs in ours)
    hessians = [run.reading.analysis for run in readings] if metric.source == "analysis" and status == "ok" else []
    return Cell.of(
        spec,
        unit=unit_of(spec.metric, relative),
        relative=relative,
        base=spec.base if relative else None,
        status=status,
        value=value,
        spread=spread,
        n=None if metric.source in ("declared", "config") else seeds_read,
        values=values,
        base_values=base_values,
        best=[_best(runs) for runs in ours],
        reached=f"{len(numbers)}/{len(values)}" if metric.needs_target and complete and values else None,
        rounds=min((rounds or [0])[-1] for rounds in waiting) if status == "unfinished" else spec.rounds,
        runs=[run.in_results.path for run in spec.sources.runs],
        base_runs=[run.in_results.path for run in spec.base_sources.runs],
        problems=list(dict.fromkeys(run.problem for run in readings if run.problem)),
        beside=None if relative else uncertainty.pyhessian_mean(hessians, spec.metric),
        errors=uncertainty.largest_errors(hessians, spec.metric),
        warnings=[
            *(f"{hessian.about.run}: {text}" for hessian in hessians for text in hessian.warnings_about(spec.metric)),
            *dict.fromkeys(run.warning for run in readings if run.warning),
            *(f"{name}: {text}" for name, text in outdated.items()),
        ],
        timed=sorted({f"{run.made_on}, {run.executor} executor" for run in readings if run.made_on}),
        images={name: counts for record in records for name, counts in record.image_counts.items()},
        contents={run.dataset: sorted({record.dataset_digest for record in records}) for run in spec.runs},
        roundings={record.name: rounding(record) for record in records},
        outdated=outdated,
    )


def _by_seed(readings: list[RunReading], spec: CellSpec) -> list[list[RunReading]]:
    """Return the readings of each seed; a timing or declaration counts as one seed."""
    seeds = len(spec.seeds)
    per_seed = len(readings) // seeds if seeds and len(readings) >= seeds else 1
    return [readings[start : start + per_seed] for start in range(0, len(readings), per_seed)]


def _number(metric: Metric, runs: list[RunReading]) -> float | None:
    """Return a seed's number, the mean over its runs, None if one of them has none."""
    usable = [run.reading for run in runs if run.reading is not None and not run.diverged]
    if not metric.needs_target and any(run.unfinished for run in runs):
        return None
    if metric.needs_runs:
        usable = [reading for reading in usable if reading.history["round"]]
    return _mean([metric.function(reading) for reading in usable], len(runs))


def _best(runs: list[RunReading]) -> float | None:
    """Return a seed's best finite accuracy, the mean over its runs, None if one of them has none."""
    histories = [run.reading.history.get(run.reading.accuracy, ()) for run in runs if run.reading]
    return _mean([max(filter(math.isfinite, history), default=None) for history in histories], len(runs))


def _mean(numbers: Numbers, runs: int) -> float | None:
    if len(numbers) < runs or None in numbers:
        return None
    return numbers[0] if len(numbers) == 1 else statistics.fmean(numbers)


def _relative_to(bases: Numbers, values: Numbers, relative: str, where: str) -> Numbers:
    try:
        return [None if None in pair else RELATIVES[relative](*pair) for pair in zip(values, bases, strict=True)]
    except ZeroDivisionError:
        raise DataError(f"{where}: {relative} divides by 0: values {values}, base row {bases}") from None


def _check_paired(
    ours: list[list[RunReading]], bases: list[list[RunReading]], seeds: Sequence[int], where: str
) -> None:
    for seed, runs, base_runs in zip(seeds, ours, bases, strict=False):
        for run, base_run in zip(runs, base_runs, strict=True):
            record, base = run.record, base_run.record
            if record is None or base is None:
                continue
            same_split = record.config.split == base.config.split
            for name, differ in (
                ("data", record.dataset_digest != base.dataset_digest),
                ("partitions", same_split and record.partition_digest != base.partition_digest),
            ):
                if differ:
                    raise DataError(f"{where}: seed {seed}: the run and its base run have different {name}; rerun both")


def _status(values: Numbers, readings: list[RunReading], waiting: bool) -> str:
    """Return the status of a cell; ``waiting``: an unfinished run may still get a number."""
    if not values:
        return "not_applicable"
    if any(run.reading is None for run in readings):
        return "missing"
    if any(run.diverged for run in readings):
        return "diverged"
    if all(value is not None for value in values):
        return "ok"
    return "unfinished" if waiting else "not_reached"
