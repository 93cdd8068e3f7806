"""What a cell's metric reads, found and checked: run folders, timing.json, hessian.json, an algorithm's declarations.

``timing.json`` (``flatfed time`` writes it; one per protocol, split and algorithm)::

    {"format": 1, "description": {...},                        # of the run that was timed; its rounds are few
     "rounds": 5, "warm_up": 1,                                # rounds measured; rounds before them, not counted
     "seconds_per_round": 1.93,                                # wall: training, loading, evaluation
     "training_seconds_per_round": 1.71,
     "evaluation_seconds_per_round": 0.22, "warning": null,    # or that the machine was busy
     "device": "cuda", "executor": "stacked", "host": {...}, ...}
"""

from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.analysis import records
from flatfed.errors import DataError, absent
from flatfed.tables.metrics import History, Metric, Reading

#: Fields of timing.json that metrics read.
TIMES = ("seconds_per_round", "training_seconds_per_round")


@dataclass(frozen=True)
class Found:
    """What was found of one run: its reading (None: absent or unfinished), whether it diverged, what is wrong or "".

    ``warning`` is what the maker of the numbers warns of, or "".
    """

    reading: Reading | None
    diverged: bool = False
    problem: str = ""
    warning: str = ""


def found(metric: Metric, spec: dict[str, Any], whose: str = "") -> list[Found]:
    """Return what ``metric`` reads for a cell, one entry per run; ``whose`` is "" or "base_" (the base row's).

    :raises DataError: a file is there but damaged, or lacks what the metric reads.
    """
    common = {"window": spec["window"], "target": spec["target"]}
    if metric.source == "declared":
        from flatfed import algorithms

        update = spec[f"{whose}update"]
        return [Found(Reading(algorithm=algorithms.load(update["name"])(**update["params"])))]
    if metric.source == "given":
        return [Found(Reading(given=spec["given"]))]
    if metric.source == "analysis":
        return [_hessian(Path(path)) for path in spec[f"{whose}analyses"]]
    timing = Found(Reading())
    if metric.source == "timing":
        timing = _timing(Path(spec[f"{whose}timing"]))
        if not metric.needs_runs:
            return [timing]
        if timing.reading is None:
            return [timing] * len(spec[f"{whose}runs"])
    result = []
    for folder in spec[f"{whose}runs"]:
        history, diverged, problem = read_run(folder, spec["rounds"], metric.columns)
        reading = None if history is None else Reading(**common, history=history, timing=timing.reading.timing)
        result.append(Found(reading, diverged, problem, timing.warning))
    return result


def _timing(path: Path) -> Found:
    """Read timing.json."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        numbers = {name: float(content[name]) for name in TIMES}
    except FileNotFoundError:
        why = "has not been made; seconds are taken from an undisturbed run of its own only: flatfed time"
        return Found(None, problem=f"{path} {why}")
    except (ValueError, KeyError, TypeError) as problem:
        raise DataError(f"{path}: lacks the numbers {', '.join(TIMES)} ({problem!r})") from None
    warning = content.get("warning")  # earlier versions wrote none
    return Found(Reading(timing=numbers), warning=f"{path}: {warning}" if warning else "")


def _hessian(path: Path) -> Found:
    """Read hessian.json, which a run that diverged has too."""
    if not path.is_file():
        return Found(None, problem=f"{path} has not been made")
    record = records.read(path)
    if record.get("diverged_at") is not None:
        return Found(Reading(), True, f"{path}: the run diverged in round {record['diverged_at']}")
    return Found(Reading(analysis=record))


def read_run(
    folder: str | Path, rounds: int, columns: tuple[str, ...]
) -> tuple[dict[str, list[float]] | None, bool, str]:
    """Read a run folder: (history or None where the run is absent or unfinished, diverged, what is wrong or "").

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
                raise DataError(absent("column", name, reader.fieldnames or (), str(path)))
        for row in reader:
            for name, numbers in history.items():
                try:
                    numbers.append(int(row[name]) if name == "round" else float(row[name]))
                except (TypeError, ValueError):
                    place = f"{path}: line {reader.line_num}: {name}"
                    raise DataError(f"{place}: {row[name]!r} is not a number") from None
    return history


def best(history: History) -> float | None:
    """Return the best finite test accuracy of a history: an extra, never what a table prints."""
    return max((number for number in history.get("test_accuracy", ()) if math.isfinite(number)), default=None)
