"""One cell of a table: a metric of a set of runs, its mean and its spread over seeds. Standard library only.

Cell specification (JSON, from ``flatfed.experiment``)::

    {"table": "fedsmoo2023_T6", "column": "dir0.1-100.rounds-t2", "row": "fedsmoo", "scale": "preview" | "paper",
     "metric": "test_accuracy" | "rounds_to_target",        # a name of flatfed.papers.metrics
     "unit": "percent" | "rounds" | ...,                    # as the paper prints it; paper's numbers below are in it
     "target": 0.74 | null,                                 # a fraction, of this scale
     "window": 1,                                           # evaluated rounds averaged at the end; 1 = the final round
     "rounds": 800,                                         # rounds a finished run has
     "seeds": [1, 2], "runs": ["results/.../seed1", ...],   # the run folders, in the order of seeds; where a seed has
                                                            # several (a mean over splits), they stand together
     "descriptions": {"share": {...}, "each": [{...}, ...]}, # of these runs (flatfed.runs.identity.pack): a folder that
                                                            # holds another run is refused, and so is one that was
     "partitions": ["results/.../seed1.npz", ...],          # trained on other data than these files deal
     "paper": {"value": 224, "spread": null, "note": "printed OUR; flag:B1", "decimals": 0} | null,   # value null: "-"
     # optional from here
     "accuracy": "test_accuracy" | "client_test_accuracy",  # the column of metrics.csv that targets and ``best`` read
     "relative": "ratio" | "speedup" | "difference",        # against a base row, seed by seed
     "base": "fedavg", "base_runs": [...],                  # that row's id and its runs, as above
     "base_descriptions": {...}, "base_partitions": [...],
     "timing": FILE, "base_timing": FILE,                   # metrics of source timing: timing.json
     "analyses": [FILE, ...],                               # metrics of source analysis: a hessian.json per run
     "update": {"name": "fedlesam", "params": {}}, "base_update": {...},   # metrics of source declared
     "given": 50000,                                        # metrics of source given
     "compare": "values" | "ordering"}                      # ordering: the paper's set-up is another, no difference

No runs (files, declarations) at all make the cell not_applicable: a combination that cannot exist.

Cell (JSON, ``results/<scale>/cells/<table>/<column>/<row>.json``): table, column, row, scale, metric, unit,
printed_unit, relative, base, status, value, spread, spread_kind, n, values, base_values, best, reached, target, window,
rounds, seeds, runs, base_runs, paper_value, paper_spread, paper_decimals, paper_note,
difference, compare, problems, beside, errors, warnings, timed, accuracy, without_sums, images. ``unit`` is the
*stored* unit ("fraction" for what is printed in percent) and holds for value, spread, values, paper_value,
paper_spread and difference alike; ``base_values`` are in the metric's own stored unit; ``best`` is each seed's best
``accuracy`` over all rounds, a fraction, an extra that no table prints as its value. ``values`` has null where a seed
has no number; n counts the seeds whose runs are there, null where the number has nothing to do with seeds. Statuses:

========================  ==============================================================================================
ok                        every seed has a number: value is their mean, spread their sample deviation (null for n = 1)
not_reached               a target some seed, or its base, did not reach: no value; ``reached`` says "1/2"
diverged                  some run ended in non-finite numbers: no value
missing                   some run is absent or unfinished: no value; ``problems`` names it
not_applicable            the cell has no runs
========================  ==============================================================================================

``beside`` is another tool's estimate of the same number (``flatfed.runs.curvature.beside``: PyHessian's of an
eigenvalue or trace), null where there is none; ``errors`` are those of one seed's estimate, as shares of it
(``flatfed.runs.curvature.errors``), null for what is no estimate; ``warnings`` are what the makers of the numbers
warn of, seed by seed; ``timed``: on what, and by which executors, seconds were measured; ``without_sums``: how many
runs have a record that cannot tell whether their files are what was written; ``images``: {data set: {"train": images,
"test": images}} that the runs were made from, empty where no record says.

``difference`` is ours minus the paper's, null where either is missing and always null at preview scale: digits minus
CIFAR-10 means nothing. The paper's spread is of whatever kind the paper's is; the table's notes say which.
"""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

from flatfed import forms
from flatfed.errors import DataError, unknown
from flatfed.files import sealed, write_json
from flatfed.papers.metrics import METRICS, RELATIVES, Metric, unit_of
from flatfed.papers.quantity import TEST
from flatfed.papers.reference import Printed
from flatfed.papers.units import UNITS, units_of
from flatfed.runs import curvature
from flatfed.tables.readings import Found, best, found

#: Key of a cell that holds the SHA-256 of all else in it, by which an edited one is known.
OWN = "cell_sha256"

KEYS = ("table", "column", "row", "scale", "metric", "unit", "target", "window", "rounds", "seeds", "runs", "paper")

#: Source of a metric -> the key of the specification that holds what it reads.
READ = {"runs": "runs", "timing": "timing", "analysis": "analyses", "declared": "update", "given": "given"}


def make(spec: dict[str, Any], out: str | Path) -> dict[str, Any]:
    """Compute the cell that ``spec`` describes, write it to ``out`` whole, and return it.

    :raises DataError: a key of ``spec`` is missing, a metric or unit unknown, or a file cannot be understood, was
        changed since it was written, or is of another run. Whatever stands in ``out`` is then untouched.
    """
    where = _check(spec)
    metric = METRICS[spec["metric"]]
    relative = spec.get("relative") or metric.relative
    applicable = spec.get(READ[metric.source]) not in (None, [])
    ours = _by_seed(found(metric, spec), spec) if applicable else []
    bases = _by_seed(found(metric, spec, "base_"), spec) if applicable and relative else []
    every = [one for runs in (*ours, *bases) for one in runs]
    if len(places := sorted({one.made_on for one in every if one.made_on})) > 1:
        raise DataError(f"{where}: seconds of {' and of '.join(places)} are not compared; time both on one machine")
    own = [_number(metric, runs) for runs in ours]
    base_values = [_number(metric, runs) for runs in bases]
    values = _taken(own, base_values, relative, where) if relative else own
    status = _status(values, every)
    numbers = [value for value in values if value is not None]
    value = statistics.fmean(numbers) if status == "ok" else None
    spread = statistics.stdev(numbers) if status == "ok" and len(numbers) > 1 else None
    if spread is not None and not math.isfinite(spread):
        raise DataError(f"{where}: the spread over seeds is not a finite number: values {values}")
    paper = forms.read(Printed, spec["paper"] or {"value": None}, f"{where}: paper")
    paper_value, paper_spread = paper.stored(spec["unit"])
    there = not any(one.reading is None for one in every)
    analysed = [one.reading.analysis for one in every] if metric.source == "analysis" and status == "ok" else []
    cell = {
        **{key: spec[key] for key in ("table", "column", "row", "scale", "metric")},
        "unit": unit_of(spec["metric"], relative),
        "printed_unit": spec["unit"],
        "relative": relative,
        "base": spec.get("base") if relative else None,
        "status": status,
        "value": value,
        "spread": spread,
        "spread_kind": "seeds",
        "n": _seeds_there(metric, ours),
        "values": values,
        "base_values": base_values,
        "best": [_best(runs) for runs in ours],
        "accuracy": spec.get("accuracy", TEST),
        "reached": f"{len(numbers)}/{len(values)}" if metric.needs_target and there and values else None,
        **{key: spec[key] for key in ("target", "window", "rounds", "seeds", "runs")},
        "base_runs": spec.get("base_runs", []),
        "paper_value": paper_value,
        "paper_spread": paper_spread,
        "paper_decimals": paper.decimals,
        "paper_note": paper.note or "",
        "difference": _difference(spec, value, paper_value),
        "compare": spec.get("compare", "values"),
        "problems": list(dict.fromkeys(one.problem for one in every if one.problem)),
        "beside": curvature.beside(analysed, spec["metric"]) if analysed and not relative else None,
        "errors": curvature.errors(analysed, spec["metric"]) if analysed else None,
        "warnings": [
            *(f"{record['run']}: {text}" for record in analysed for text in curvature.cautions(record, spec["metric"])),
            *dict.fromkeys(one.warning for one in every if one.warning),
        ],
        "timed": sorted({f"{one.made_on}, {one.executor} executor" for one in every if one.made_on}),
        "without_sums": sum(one.without_sums for one in every),
        "images": {name: counts for one in every for name, counts in one.images.items()},
    }
    return write(cell, out)


def write(cell: dict[str, Any], out: str | Path) -> dict[str, Any]:
    """Write ``cell`` to ``out``, whole, with a sum of its own; return what was written."""
    summed = sealed(cell, OWN)
    write_json(out, summed)
    return summed


def _by_seed(everything: list[Found], spec: dict[str, Any]) -> list[list[Found]]:
    """Return what was found, seed by seed; what is there once (a timing, a declaration) is its own single "seed"."""
    seeds = len(spec["seeds"])
    each = len(everything) // seeds if seeds and len(everything) >= seeds else 1
    return [everything[place : place + each] for place in range(0, len(everything), each)]


def _number(metric: Metric, runs: list[Found]) -> float | None:
    """Return a seed's number, the mean over its runs; None where one is absent, diverged or has no number."""
    usable = [run.reading for run in runs if run.reading is not None and not run.diverged]
    if metric.needs_runs:
        usable = [reading for reading in usable if reading.history["round"]]
    numbers = [metric.function(reading) for reading in usable]
    if len(numbers) < len(runs) or None in numbers:
        return None
    return numbers[0] if len(numbers) == 1 else statistics.fmean(numbers)


def _taken(own: list[float | None], bases: list[float | None], relative: str, where: str) -> list[float | None]:
    """Return each seed's number against its base row's of the same seed."""
    function = RELATIVES[relative][0]
    try:
        return [None if None in pair else function(*pair) for pair in zip(own, bases, strict=True)]
    except ZeroDivisionError:
        raise DataError(f"{where}: {relative} divides by 0: values {own}, base row {bases}") from None


def _status(values: list[float | None], every: list[Found]) -> str:
    """Return the status of a cell; what is wrong with the runs comes before what is wrong with the number."""
    if not values:
        return "not_applicable"
    if any(one.reading is None for one in every):
        return "missing"
    if any(one.diverged for one in every):
        return "diverged"
    return "ok" if all(value is not None for value in values) else "not_reached"


def _seeds_there(metric: Metric, ours: list[list[Found]]) -> int | None:
    """Return how many seeds are there in full; None for a number that has nothing to do with seeds."""
    if metric.source in ("declared", "given"):
        return None
    return sum(all(run.reading is not None for run in runs) for runs in ours)


def _best(runs: list[Found]) -> float | None:
    """Return a seed's best accuracy, the mean over its runs, None where there is none."""
    numbers = [best(run.reading) if run.reading else None for run in runs]
    return None if None in numbers else statistics.fmean(numbers)


def _difference(spec: dict[str, Any], value: float | None, paper_value: float | None) -> float | None:
    """Return our value minus the paper's, None where they do not compare."""
    wanted = spec["scale"] == "paper" and spec.get("compare", "values") == "values"
    comparable = wanted and value is not None and paper_value is not None
    # Printed numbers have at most six figures; ten decimals drop the dust of binary fractions and nothing else.
    return round(value - paper_value, 10) if comparable else None


def _check(spec: dict[str, Any]) -> str:
    """Refuse a specification with a key missing or a value out of range; return its name for messages."""
    where = "cell " + "/".join(str(spec.get(key, "?")) for key in ("table", "column", "row"))
    absent = [key for key in KEYS if key not in spec]
    if absent:
        raise DataError(f"{where}: the specification lacks {', '.join(absent)}; needed: {', '.join(KEYS)}")
    relatives = {"none": None, **RELATIVES}
    compares = ("values", "ordering")
    named = [("metric", spec["metric"], METRICS), ("unit", spec["unit"], UNITS)]
    named += [("relative", spec.get("relative") or "none", relatives)]
    named += [("compare", spec.get("compare", "values"), compares)]
    for kind, value, known in named:
        if value not in known:
            raise DataError(unknown(kind, value, known, where))
    metric = METRICS[spec["metric"]]
    relative = spec.get("relative") or metric.relative
    stored = unit_of(spec["metric"], relative)
    if UNITS[spec["unit"]].stored != stored:
        allowed = ", ".join(units_of(stored))
        what = f"{spec['metric']} as a {relative}" if relative else spec["metric"]
        raise DataError(f"{where}: unit {spec['unit']!r} is not one of {what}; allowed: {allowed}")
    if metric.needs_target and spec["target"] is None:
        raise DataError(f"{where}: {spec['metric']} needs a target, a fraction between 0 and 1")
    if spec["target"] is not None and not 0 < spec["target"] <= 1:
        raise DataError(f"{where}: target {spec['target']} is not a fraction between 0 and 1")
    if spec["window"] < 1:
        raise DataError(f"{where}: window {spec['window']} is not a number of rounds from 1 up")
    _check_runs(spec, metric, relative, where)
    return where


def _check_runs(spec: dict[str, Any], metric: Metric, relative: str | None, where: str) -> None:
    """Refuse runs that do not come out even over the seeds, and a base row that does not pair with ours."""
    runs, seeds = spec["runs"], spec["seeds"]
    if runs and (not seeds or len(runs) % len(seeds) or (len(runs) > len(seeds) and not metric.several)):
        raise DataError(f"{where}: {len(runs)} runs for {len(seeds)} seeds")
    key = READ[metric.source]
    if spec.get(key) in (None, []):
        return
    needed = [key, *(["runs", "partitions"] if metric.needs_runs or metric.source == "analysis" else [])]
    needed += ["descriptions"] if metric.source in ("runs", "timing", "analysis") else []
    for name in [*needed, *(f"base_{one}" for one in needed if relative)]:
        if name not in spec:
            kind = f", {relative} to a base row," if name.startswith("base_") else ""
            raise DataError(f"{where}: {spec['metric']}{kind} needs {name!r} in the specification")
    for whose in ("", "base_") if relative else ("",):
        counts = {name: len(spec[f"{whose}{name}"]) for name in ("runs", "partitions") if f"{whose}{name}" in spec}
        if f"{whose}descriptions" in spec:
            counts["descriptions"] = len(spec[f"{whose}descriptions"]["each"])
        alone = metric.source == "timing" and not metric.needs_runs
        if len(set(counts.values())) > 1 and not alone:
            said = ", ".join(f"{count} {whose}{name}" for name, count in counts.items())
            raise DataError(f"{where}: {said}; as many of each are wanted")
        if alone and not counts.get("descriptions"):
            raise DataError(f"{where}: no {whose}descriptions; the run that was timed is wanted")
    if relative and metric.needs_runs and len(spec["base_runs"]) != len(runs):
        raise DataError(f"{where}: {len(spec['base_runs'])} base runs for {len(runs)} runs; they are paired")
