"""Paired differences, a method minus a baseline: runs of one seed share clients and random draws."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from flatfed.plan.metrics import METRICS, Reading
from flatfed.plan.number import Number
from flatfed.plan.units import signed, written
from flatfed.tables.measurement import measure, of_run
from flatfed.tables.readings import RunReading

#: The least number of seeds with an interval, and its confidence.
LEAST, CONFIDENCE = 3, 0.95

#: The lines with one interval.
GROUP = ["protocol", "split", "quantity", "target", "baseline"]


def of_pair(number: Number, targets: Iterable[float]) -> tuple[list[dict[str, Any]], list[RunReading]]:
    """Return a line per quantity, none without a common round, and the readings of the run and the base run.

    ``number``: an accuracy of both runs, finished or not; its column is <protocol>/<split>. The quantities, in stored
    units: the mean of the common rounds, the final number at the last of them, and the rounds to each of ``targets``,
    None if it is not reached.

    :raises DataError: a file is damaged or of another run, or the runs have different data or partitions.
    """
    measured = measure(number, so_far=True)
    readings = [*measured.runs, *measured.base_runs]
    rounds = set.intersection(*(set(run.reading.history["round"]) for run in readings))
    if not rounds:
        return [], readings
    common, final = [_at(run.reading, rounds) for run in readings], METRICS[number.metric].function
    values = {("mean", None): [final(replace(reading, window=len(rounds))) for reading in common]}
    values["last", None] = [final(reading) for reading in common]
    for target in targets:
        of_target = (replace(run, reading=replace(run.reading, target=target)) for run in readings)
        values["rounds_to_target", target] = [of_run(METRICS["rounds_to_target"], run) for run in of_target]
    protocol, split = number.column.split("/")
    about = {"scale": number.scale, "protocol": protocol, "split": split, "seeds": str(number.seed)}
    about |= {"mine": number.row, "baseline": number.base, "rounds": len(rounds), "last_round": max(rounds)}
    about["window"] = min(number.window, len(rounds))
    for name, run, reading in zip(("mine", "baseline"), number.all_runs, readings, strict=True):
        about |= {f"{name}_run": run.path, f"{name}_rounds": reading.record.rounds_done}
    lines = []
    for (quantity, target), (mine, base) in values.items():
        difference = None if None in (mine, base) else mine - base
        numbers = {"mine_value": mine, "baseline_value": base, "difference": difference}
        lines.append({**about, "quantity": quantity, "target": target, **numbers})
    return lines, readings


def _at(reading: Reading, rounds: set[int]) -> Reading:
    """Return the reading at some ``rounds``."""
    at = [index for index, number in enumerate(reading.history["round"]) if number in rounds]
    return replace(reading, history={name: [column[i] for i in at] for name, column in reading.history.items()})


def with_intervals(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the ``lines`` of pairs by quantity and baseline, each group with its mean and Student's interval.

    The mean is of the seeds with the latest common round, if they are several and all have a difference. ``LEAST``
    seeds or more have an interval.
    """
    from scipy.stats import t

    parts = []
    by_quantity = lines.sort_values(GROUP[:-1], kind="stable")
    for _, part in by_quantity.groupby(GROUP, sort=False, dropna=False):
        parts.append(part)
        latest = part[part["last_round"] == part["last_round"].max()]
        if (count := len(latest)) > 1 and latest["difference"].notna().all():
            means = latest[["mine_value", "baseline_value", "difference"]].astype(float).mean()
            quantile = t.ppf((1 + CONFIDENCE) / 2, count - 1) if count >= LEAST else math.nan
            half = quantile * latest["difference"].std() / math.sqrt(count)
            ends = {"low": means["difference"] - half, "high": means["difference"] + half}
            runs = {"mine_run": "", "baseline_run": ""}
            parts.append(latest.iloc[:1].assign(seeds=";".join(latest["seeds"]), **means, **ends, **runs))
    return pd.concat(parts, ignore_index=True).reindex(columns=[*lines.columns, "low", "high"])


def text(lines: pd.DataFrame, labels: Mapping[str, str]) -> str:
    """Return the ``lines`` of one protocol and split as a grid; ``labels``: algorithm -> its name."""
    interval = f"{100 * CONFIDENCE:g} % interval" if lines["low"].notna().any() else ""
    grid = [("", "baseline", "seed", "round", labels[lines["mine"].iloc[0]], "baseline", "difference", interval)]
    for line in lines.itertuples():
        words = {"mean": "mean of all common rounds", "rounds_to_target": f"rounds to {100 * (line.target or 0):g} %"}
        words["last"] = "last common round" if line.window == 1 else f"mean of the last {line.window} common rounds"
        unit, of_difference = ("rounds",) * 2 if line.quantity == "rounds_to_target" else ("percent", "pp")
        values = (line.mine_value, line.mine_rounds), (line.baseline_value, line.baseline_rounds)
        numbers = [f">{done}" if pd.isna(value) else written(value, None, unit) for value, done in values]
        change, *ends = ("" if pd.isna(x) else signed(x, of_difference) for x in (line.difference, line.low, line.high))
        seeds = f"{line.seeds.count(';') + 1} seeds" if ";" in line.seeds else line.seeds
        about = (words[line.quantity], labels[line.baseline], seeds, str(line.last_round))
        grid.append((*about, *numbers, change, " to ".join(filter(None, ends))))
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    form = "  ".join(f"{{:{'<' if index < 2 else '>'}{width}}}" for index, width in enumerate(widths))
    return "\n".join(form.format(*row).rstrip() for row in grid)
