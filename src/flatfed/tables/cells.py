"""One cell of a table: a metric of a set of runs, its mean and its spread over seeds. Standard library only.

Cell specification (JSON, from ``flatfed.experiment``)::

    {"table": "fedsmoo2023_T6", "column": "dir0.1-100.rounds-t2", "row": "fedsmoo", "scale": "preview" | "paper",
     "metric": "test_accuracy" | "rounds_to_target",        # a name of flatfed.tables.metrics
     "unit": "percent" | "rounds" | ...,                    # as the paper prints it; paper's numbers below are in it
     "target": 0.74 | null,                                 # a fraction, of this scale
     "window": 1,                                           # evaluated rounds averaged at the end; 1 = the final round
     "rounds": 800,                                         # rounds a finished run has
     "seeds": [1, 2], "runs": ["results/.../seed1", ...],   # one run folder per seed, in the order of seeds
     "base_runs": [],                                       # optional: runs of the row a relative metric divides by
     "paper": {"value": 224, "spread": null, "note": "printed OUR; flag:B1"} | null}   # value null: printed "-"

No runs at all (a combination that cannot exist) makes the cell not_applicable.
 Cell (JSON, ``results/<scale>/cells/<table>/<column>/<row>.json``): table, column, row, scale, metric, unit,
status, value, spread, spread_kind, n, values, best, reached, target, window, rounds, seeds, runs, base_runs,
paper_value, paper_spread, paper_note, difference, problems. ``unit`` is the *stored* unit ("fraction" for
what is printed in percent) and holds for value, spread, values, paper_value, paper_spread and difference
alike; ``best`` is each seed's best test accuracy over all rounds, a fraction, an extra that no table prints
as its value. ``values`` has null where a seed has no number. Statuses:

========================  ==============================================================================================
ok                        every seed has a number: value is their mean, spread their sample deviation (null for n = 1)
not_reached               a target some seed did not reach: no value; ``reached`` says "1/2"
diverged                  some run ended in non-finite numbers: no value
missing                   some run is absent or unfinished: no value; ``problems`` names it
not_applicable            the cell has no runs
========================  ==============================================================================================
 ``difference`` is ours minus the paper's, null where either is missing and always null at preview scale:
digits minus CIFAR-10 means nothing. The paper's spread is of whatever kind the paper's is; the table's notes
say which.
"""

from __future__ import annotations

import csv
import json
import math
import statistics
from pathlib import Path
from typing import Any

from flatfed.errors import DataError, unknown
from flatfed.files import write_json
from flatfed.tables.metrics import METRICS, History

#: Printed unit -> (stored unit, printed units in one stored unit).
UNITS = {"percent": ("fraction", 100.0), "rounds": ("rounds", 1.0)}

KEYS = ("table", "column", "row", "scale", "metric", "unit", "target", "window", "rounds", "seeds", "runs", "paper")


def make(spec: dict[str, Any], out: str | Path) -> dict[str, Any]:
    """Compute the cell that ``spec`` describes, write it to ``out`` whole, and return it.

    :raises DataError: a key of ``spec`` is missing, a metric or unit unknown, or a run's files cannot be
        understood.
    """
    where = _check(spec)
    metric = METRICS[spec["metric"]]
    problems: list[str] = []
    values: list[float | None] = []
    best: list[float | None] = []
    found = diverged = 0
    for folder in spec["runs"]:
        history, run_diverged, problem = read_run(folder, spec["rounds"], metric.columns)
        if problem:
            problems.append(problem)
        found += history is not None
        diverged += run_diverged
        usable = history is not None and bool(history["round"]) and not run_diverged
        values.append(metric.function(history, spec["window"], spec["target"]) if usable else None)
        best.append(_best(history))
    missing = len(spec["runs"]) - found
    status = _status(values, missing, diverged)
    numbers = [value for value in values if value is not None]
    value = statistics.fmean(numbers) if status == "ok" else None
    paper_value, paper_spread, difference = _paper(spec, value)
    cell = {
        **{key: spec[key] for key in ("table", "column", "row", "scale", "metric")},
        "unit": UNITS[spec["unit"]][0],
        "status": status,
        "value": value,
        "spread": statistics.stdev(numbers) if status == "ok" and len(numbers) > 1 else None,
        "spread_kind": "seeds",
        "n": found,
        "values": values,
        "best": best,
        "reached": f"{len(numbers)}/{len(values)}" if metric.needs_target and not missing and values else None,
        **{key: spec[key] for key in ("target", "window", "rounds", "seeds", "runs")},
        "base_runs": spec.get("base_runs", []),
        "paper_value": paper_value,
        "paper_spread": paper_spread,
        "paper_note": (spec["paper"] or {}).get("note") or "",
        "difference": difference,
        "problems": problems,
    }
    if cell["spread"] is not None and not math.isfinite(cell["spread"]):
        raise DataError(f"{where}: the spread over seeds is not a finite number: values {values}")
    write_json(out, cell)
    return cell


def read_run(
    folder: str | Path, rounds: int, columns: tuple[str, ...]
) -> tuple[dict[str, list[float]] | None, bool, str]:
    """Read a run folder: (history or None where the run is absent or unfinished, diverged, what is wrong or
    "").

    The history has ``round``, ``test_accuracy`` and ``columns``, one entry per evaluated round.

    :raises DataError: run.json or metrics.csv is there but damaged, or a column is absent.
    """
    folder = Path(folder)
    for name in ("run.json", "metrics.csv"):
        if not (folder / name).is_file():
            return None, False, f"{folder} has no {name}"
    try:
        about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        done, diverged_at = about["rounds_done"], about["diverged_at"]
    except (ValueError, KeyError, TypeError) as problem:
        raise DataError(f"{folder / 'run.json'}: not the description of a run ({problem!r})") from None
    history = read_metrics(folder / "metrics.csv", ("round", "test_accuracy", *columns))
    if diverged_at is not None:
        return history, True, f"{folder} diverged in round {diverged_at}"
    if done < rounds or not history["round"] or history["round"][-1] < rounds:
        return None, False, f"{folder} has done {done} of {rounds} rounds"
    broken = any(not math.isfinite(number) for column in columns for number in history[column])
    return history, broken, f"{folder / 'metrics.csv'} holds a non-finite number" if broken else ""


def read_metrics(path: Path, columns: tuple[str, ...]) -> dict[str, list[float]]:
    """Return the named columns of a metrics.csv as lists of floats (rounds as ints).

    :raises DataError: a column is absent or a field is not a number; the message names file, line and column.
    """
    history: dict[str, list[float]] = {name: [] for name in dict.fromkeys(columns)}
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        for name in history:
            if name not in (reader.fieldnames or ()):
                raise DataError(unknown("column", name, reader.fieldnames or (), str(path)))
        for row in reader:
            for name, numbers in history.items():
                try:
                    numbers.append(int(row[name]) if name == "round" else float(row[name]))
                except (TypeError, ValueError):
                    place = f"{path}: line {reader.line_num}: {name}"
                    raise DataError(f"{place}: {row[name]!r} is not a number") from None
    return history


def _check(spec: dict[str, Any]) -> str:
    """Refuse a specification with a key missing or a value out of range; return its name for messages."""
    where = "cell " + "/".join(str(spec.get(key, "?")) for key in ("table", "column", "row"))
    absent = [key for key in KEYS if key not in spec]
    if absent:
        raise DataError(f"{where}: the specification lacks {', '.join(absent)}; needed: {', '.join(KEYS)}")
    for kind, known in (("metric", METRICS), ("unit", UNITS)):
        if spec[kind] not in known:
            raise DataError(unknown(kind, spec[kind], known, where))
    metric = METRICS[spec["metric"]]
    if UNITS[spec["unit"]][0] != metric.unit:
        allowed = ", ".join(name for name, (stored, _) in UNITS.items() if stored == metric.unit)
        raise DataError(f"{where}: unit {spec['unit']!r} is not one of {spec['metric']}; allowed: {allowed}")
    if metric.needs_target and spec["target"] is None:
        raise DataError(f"{where}: {spec['metric']} needs a target, a fraction between 0 and 1")
    if spec["target"] is not None and not 0 < spec["target"] <= 1:
        raise DataError(f"{where}: target {spec['target']} is not a fraction between 0 and 1")
    if spec["window"] < 1:
        raise DataError(f"{where}: window {spec['window']} is not a number of rounds from 1 up")
    if spec["runs"] and len(spec["runs"]) != len(spec["seeds"]):
        raise DataError(f"{where}: {len(spec['runs'])} runs for {len(spec['seeds'])} seeds")
    return where


def _status(values: list[float | None], missing: int, diverged: int) -> str:
    """Return the status of a cell; what is wrong with the runs comes before what is wrong with the number."""
    if not values:
        return "not_applicable"
    if missing:
        return "missing"
    if diverged:
        return "diverged"
    return "ok" if all(value is not None for value in values) else "not_reached"


def _best(history: History | None) -> float | None:
    """Return the best finite test accuracy of a history: an extra, never what a table prints."""
    finite = [number for number in (history or {}).get("test_accuracy", ()) if math.isfinite(number)]
    return max(finite, default=None)


def _paper(spec: dict[str, Any], value: float | None) -> tuple[float | None, float | None, float | None]:
    """Return the paper's value and spread in the stored unit, and ours minus the paper's."""
    factor = UNITS[spec["unit"]][1]
    paper = spec["paper"] or {}
    stored = [None if paper.get(key) is None else paper[key] / factor for key in ("value", "spread")]
    comparable = spec["scale"] == "paper" and value is not None and stored[0] is not None
    # Printed numbers have at most five figures; ten decimals drop the dust of binary fractions and nothing
    # else.
    return stored[0], stored[1], round(value - stored[0], 10) if comparable else None
