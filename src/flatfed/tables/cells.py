"""One cell of a table: a metric of a set of runs, its mean and its spread over seeds. Standard library only.

A :class:`flatfed.specs.cell.CellSpec` comes in, a :class:`flatfed.specs.cell.Cell` goes out.
"""

from __future__ import annotations

import math
import statistics
from pathlib import Path

from flatfed.errors import DataError
from flatfed.papers.metrics import METRICS, RELATIVES, Metric, unit_of
from flatfed.papers.units import UNITS, units_of
from flatfed.runs import uncertainty
from flatfed.specs import cell as cell_files
from flatfed.specs.cell import Cell, CellSpec
from flatfed.tables.readings import RunReading, best, read_sources


def make(spec: CellSpec, out: str | Path, *, so_far: bool = False) -> Cell:
    """Compute the cell that ``spec`` describes, write it to ``out`` whole, and return it.

    ``so_far``: read unfinished runs, too: targets that they reached count, numbers of the final round wait for it.

    :raises DataError: a file cannot be understood, was changed since it was written, or is of another run. Whatever
        stands in ``out`` is then untouched.
    """
    where = f"cell {spec.table}/{spec.column}/{spec.row}"
    metric = METRICS[spec.metric]
    relative = spec.relative or metric.relative
    _check(spec, metric, relative, where)
    applicable = spec.sources.holds(metric.source)
    ours = _by_seed(read_sources(metric, spec, spec.sources, so_far), spec) if applicable else []
    bases = _by_seed(read_sources(metric, spec, spec.base_sources, so_far), spec) if applicable and relative else []
    every = [run for runs in (*ours, *bases) for run in runs]
    _check_paired(ours, bases, spec.seeds, where)
    if len(places := sorted({run.made_on for run in every if run.made_on})) > 1:
        raise DataError(f"{where}: seconds of {' and of '.join(places)} are not compared; time both on one machine")
    own = [_number(metric, runs) for runs in ours]
    base_values = [_number(metric, runs) for runs in bases]
    values = _relative_to(base_values, own, relative, where) if relative else own
    begun = [run for run in every if run.unfinished and run.reading]
    waiting = [run.reading.history["round"] for run in begun if _number(metric, [run]) is None]
    status = _status(values, every, bool(waiting))
    numbers = [value for value in values if value is not None]
    value = statistics.fmean(numbers) if status == "ok" else None
    spread = statistics.stdev(numbers) if status == "ok" and len(numbers) > 1 else None
    if spread is not None and not math.isfinite(spread):
        raise DataError(f"{where}: the spread over seeds is not a finite number: values {values}")
    complete = all(run.reading is not None for run in every)
    analysed = [run.reading.analysis for run in every] if metric.source == "analysis" and status == "ok" else []
    cell = Cell.of(
        spec,
        unit=unit_of(spec.metric, relative),
        relative=relative,
        base=spec.base if relative else None,
        status=status,
        value=value,
        spread=spread,
        n=_seeds_there(metric, ours),
        values=values,
        base_values=base_values,
        best=[_best(runs) for runs in ours],
        reached=f"{len(numbers)}/{len(values)}" if metric.needs_target and complete and values else None,
        rounds=min((rounds or [0])[-1] for rounds in waiting) if status == "unfinished" else spec.rounds,
        runs=spec.sources.runs,
        base_runs=spec.base_sources.runs,
        problems=list(dict.fromkeys(run.problem for run in every if run.problem)),
        beside=uncertainty.beside(analysed, spec.metric) if analysed and not relative else None,
        errors=uncertainty.errors(analysed, spec.metric) if analysed else None,
        warnings=[
            *(f"{hessian.about.run}: {text}" for hessian in analysed for text in hessian.cautions(spec.metric)),
            *dict.fromkeys(run.warning for run in every if run.warning),
        ],
        timed=sorted({f"{run.made_on}, {run.executor} executor" for run in every if run.made_on}),
        images={name: counts for run in every for name, counts in run.images.items()},
    )
    cell_files.write(out, cell)
    return cell


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
    function = RELATIVES[relative][0]
    try:
        return [None if None in pair else function(*pair) for pair in zip(own, bases, strict=True)]
    except ZeroDivisionError:
        raise DataError(f"{where}: {relative} divides by 0: values {own}, base row {bases}") from None


def _check_paired(ours: list[list[RunReading]], bases: list[list[RunReading]], seeds: list[int], where: str) -> None:
    """Refuse a run and its base of other data, or of one split dealt otherwise: their difference is of that, too."""
    for seed, own, base in zip(seeds, ours, bases, strict=False):
        for run, other in zip(own, base, strict=True):
            if run.trained_on is None or other.trained_on is None:
                continue
            (split, data, deal), (base_split, base_data, base_deal) = run.trained_on, other.trained_on
            if data != base_data:
                raise DataError(
                    f"{where}: seed {seed}: the run and its base row's have different data; make both again"
                )
            if split == base_split and deal != base_deal:
                raise DataError(
                    f"{where}: seed {seed}: the run and its base row's were dealt otherwise; make both again"
                )


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


def _seeds_there(metric: Metric, ours: list[list[RunReading]]) -> int | None:
    """Return how many seeds are there in full; None for a number that has nothing to do with seeds."""
    if metric.source in ("declared", "given"):
        return None
    return sum(all(run.reading is not None for run in runs) for runs in ours)


def _check(spec: CellSpec, metric: Metric, relative: str | None, where: str) -> None:
    """Refuse a specification whose parts do not fit each other."""
    if UNITS[spec.unit].stored != (stored := unit_of(spec.metric, relative)):
        what = f"{spec.metric} as a {relative}" if relative else spec.metric
        allowed = ", ".join(units_of(stored))
        raise DataError(f"{where}: unit {spec.unit!r} is not one of {what}; allowed: {allowed}")
    if metric.needs_target and spec.target is None:
        raise DataError(f"{where}: {spec.metric} needs a target, a fraction between 0 and 1")
    if spec.target is not None and not 0 < spec.target <= 1:
        raise DataError(f"{where}: target {spec.target} is not a fraction between 0 and 1")
    _check_counts(spec, metric, relative, where)


def _check_counts(spec: CellSpec, metric: Metric, relative: str | None, where: str) -> None:
    """Refuse runs that do not come out even over the seeds, and a base row that does not pair with ours."""
    if not spec.sources.holds(metric.source):
        return
    if relative and not spec.base_sources.holds(metric.source):
        raise DataError(f"{where}: {spec.metric}, {relative} to a base row, needs base_sources of {metric.source}")
    runs, seeds = len(spec.sources.runs), len(spec.seeds)
    if runs and (not seeds or runs % seeds or (runs > seeds and not metric.several)):
        raise DataError(f"{where}: {runs} runs for {seeds} seeds")
    if relative and metric.needs_runs and len(spec.base_sources.runs) != runs:
        raise DataError(f"{where}: {len(spec.base_sources.runs)} base runs for {runs} runs; they are paired")
    for name, sources in {"sources": spec.sources, **({"base_sources": spec.base_sources} if relative else {})}.items():
        counts = {"descriptions": len(sources.descriptions["each"]), "partitions": len(sources.partitions)}
        if metric.source == "timing" and not metric.needs_runs:
            if not counts["descriptions"]:
                raise DataError(f"{where}: {name}: no descriptions; the run that was timed is wanted")
            continue
        if metric.source == "analysis":
            counts["analyses"] = len(sources.analyses)
        if any(count != len(sources.runs) for count in counts.values()):
            listed = ", ".join(f"{count} {what}" for what, count in counts.items())
            raise DataError(f"{where}: {name}: {len(sources.runs)} runs, {listed}; as many of each are wanted")


def _best(runs: list[RunReading]) -> float | None:
    """Return a seed's best accuracy, the mean over its runs, None where there is none."""
    numbers = [best(run.reading) if run.reading else None for run in runs]
    return None if None in numbers else statistics.fmean(numbers)
