"""One cell of a table: a metric of a set of runs, its mean and its spread over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from flatfed.errors import DataError
from flatfed.experiment.model import CellSpec
from flatfed.papers.metrics import METRICS, RELATIVES, Metric, unit_of
from flatfed.runs import uncertainty
from flatfed.tables.cell import Cell
from flatfed.tables.readings import RunReading, best, read_sources, rounding


def compute(spec: CellSpec, *, so_far: bool = False) -> Cell:
    """Return the cell that ``spec`` describes.

    ``so_far``: read unfinished runs, too: targets that they reached count, numbers of the final round wait for it.

    :raises DataError: a file cannot be understood, was changed since it was written, or is of another run. The message
        has a line for every refused run.
    """
    where = f"cell {spec.table}/{spec.column}/{spec.row}"
    metric = METRICS[spec.metric]
    relative = spec.relative or metric.relative
    applicable = not spec.sources.empty
    ours = _by_seed(read_sources(metric, spec, spec.sources, so_far), spec) if applicable else []
    bases = _by_seed(read_sources(metric, spec, spec.base_sources, so_far), spec) if applicable and relative else []
    every = [run for runs in (*ours, *bases) for run in runs]
    _check_paired(ours, bases, spec.seeds, where)
    if len(places := sorted({run.made_on for run in every if run.made_on})) > 1:
        raise DataError(f"{where}: seconds of {' and of '.join(places)} are not compared; time both on one machine")
    own = [_number(metric, runs) for runs in ours]
    base_values = [_number(metric, runs) for runs in bases]
    values = _relative_to(base_values, own, relative, where) if relative else own
    records = [run.record for run in every if run.record]
    begun = [run for run in every if run.unfinished and run.reading]
    waiting = [run.reading.history["round"] for run in begun if _number(metric, [run]) is None]
    status = _status(values, every, bool(waiting))
    numbers = [value for value in values if value is not None]
    value = statistics.fmean(numbers) if status == "ok" else None
    spread = statistics.stdev(numbers) if status == "ok" and len(numbers) > 1 else None
    if spread is not None and not math.isfinite(spread):
        raise DataError(f"{where}: the spread over seeds is not a finite number: values {values}")
    complete = all(run.reading is not None for run in every)
    seeds_there = sum(all(run.reading is not None for run in runs) for runs in ours)
    analysed = [run.reading.analysis for run in every] if metric.source == "analysis" and status == "ok" else []
    return Cell.of(
        spec,
        unit=unit_of(spec.metric, relative),
        relative=relative,
        base=spec.base if relative else None,
        status=status,
        value=value,
        spread=spread,
        n=None if metric.source in ("declared", "given") else seeds_there,
        values=values,
        base_values=base_values,
        best=[_best(runs) for runs in ours],
        reached=f"{len(numbers)}/{len(values)}" if metric.needs_target and complete and values else None,
        rounds=min((rounds or [0])[-1] for rounds in waiting) if status == "unfinished" else spec.rounds,
        runs=[run.path for run in spec.sources.runs],
        base_runs=[run.path for run in spec.base_sources.runs],
        problems=list(dict.fromkeys(run.problem for run in every if run.problem)),
        beside=uncertainty.pyhessian_mean(analysed, spec.metric) if analysed and not relative else None,
        errors=uncertainty.largest_errors(analysed, spec.metric) if analysed else None,
        warnings=[
            *(f"{hessian.about.run}: {text}" for hessian in analysed for text in hessian.warnings_about(spec.metric)),
            *dict.fromkeys(run.warning for run in every if run.warning),
        ],
        timed=sorted({f"{run.made_on}, {run.executor} executor" for run in every if run.made_on}),
        images={name: counts for record in records for name, counts in record.image_counts.items()},
        roundings={record.name: rounding(record) for record in records},
    )


def _by_seed(everything: list[RunReading], spec: CellSpec) -> list[list[RunReading]]:
    """Return what was found, seed by seed; what is there once (a timing, a declaration) is its own single "seed"."""
    seeds = len(spec.seeds)
    each = len(everything) // seeds if seeds and len(everything) >= seeds else 1
    return [everything[place : place + each] for place in range(0, len(everything), each)]


def _number(metric: Metric, runs: list[RunReading]) -> float | None:
    """Return a seed's number, the mean over its runs; None where a run is absent, diverged or has no number."""
    usable = [run.reading for run in runs if run.reading is not None and not run.diverged]
    if not metric.needs_target and any(run.unfinished for run in runs):
        return None
    if metric.needs_runs:
        usable = [reading for reading in usable if reading.history["round"]]
    numbers = [metric.function(reading) for reading in usable]
    if len(numbers) < len(runs) or None in numbers:
        return None
    return numbers[0] if len(numbers) == 1 else statistics.fmean(numbers)


def _relative_to(bases: list[float | None], own: list[float | None], relative: str, where: str) -> list[float | None]:
    """Return each seed's number against its base row's of the same seed."""
    try:
        return [None if None in pair else RELATIVES[relative](*pair) for pair in zip(own, bases, strict=True)]
    except ZeroDivisionError:
        raise DataError(f"{where}: {relative} divides by 0: values {own}, base row {bases}") from None


def _check_paired(
    ours: list[list[RunReading]], bases: list[list[RunReading]], seeds: Sequence[int], where: str
) -> None:
    """Refuse a run and its base of other data, or of one split dealt otherwise: their difference is of that, too."""
    for seed, own, base in zip(seeds, ours, bases, strict=False):
        for run, other in zip(own, base, strict=True):
            record, base_record = run.record, other.record
            if record is None or base_record is None:
                continue
            wrong = "have different data" if record.dataset_digest != base_record.dataset_digest else ""
            same_split = record.description.get("split") == base_record.description.get("split")
            if not wrong and same_split and record.partition_digest != base_record.partition_digest:
                wrong = "were dealt otherwise"
            if wrong:
                raise DataError(f"{where}: seed {seed}: the run and its base row's {wrong}; make both again")


def _status(values: list[float | None], every: list[RunReading], waiting: bool) -> str:
    """Return the status of a cell; what is wrong with the runs comes before what is wrong with the number.

    ``waiting``: an unfinished run may still get a number.
    """
    if not values:
        return "not_applicable"
    if any(run.reading is None for run in every):
        return "missing"
    if any(run.diverged for run in every):
        return "diverged"
    if all(value is not None for value in values):
        return "ok"
    return "unfinished" if waiting else "not_reached"


def _best(runs: list[RunReading]) -> float | None:
    """Return a seed's best accuracy, the mean over its runs, None where there is none."""
    numbers = [best(run.reading) if run.reading else None for run in runs]
    return None if None in numbers else statistics.fmean(numbers)
