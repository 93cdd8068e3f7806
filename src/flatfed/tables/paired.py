"""Paired differences, a method minus a baseline: runs of one seed share clients and random draws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from flatfed.errors import ConfigError
from flatfed.plan import Experiment, Run
from flatfed.plan.metrics import Reading
from flatfed.plan.units import signed, written
from flatfed.runs.paths import without_label
from flatfed.runs.record import METRICS, RunRecord
from flatfed.runs.store import Store

GROUP = ["scale", "protocol", "split", "baseline", "quantity", "unit"]


def pairs(experiment: Experiment, store: Store, mine: str, baselines: Sequence[str]) -> Iterator[tuple[Run, Run]]:
    """Yield the runs of ``mine`` and of each baseline of one protocol, split and seed, in any precision."""
    ids = {record.config.ids: None for record in store.records.values() if record.config.algorithm == mine}
    plain = {replace(run, protocol=without_label(run.protocol)): None for run in ids}
    taken: set[str] = set()
    for name in dict.fromkeys(baselines):
        taken.clear()
        for requested in sorted(plain | ids, key=lambda run: (run not in plain, run.row, run.seed)):
            try:
                both = [experiment.run(**vars(replace(requested, algorithm=algorithm))) for algorithm in (mine, name)]
            except ConfigError as problem:
                store.refused.setdefault(requested.name, str(problem))
                continue
            first, base = (store.find(run) for run in both)
            if not first.absent and not base.absent and first.path not in taken:
                taken.add(first.path)
                yield first, base


def accuracies(folder: str, record: RunRecord, column: str) -> pd.Series:
    """Return the accuracies by round of a run whose ``record`` was checked; none if it diverged before the first."""
    path = Path(folder, record.metrics)
    if not path.exists():  # its training ended since then
        path = path.with_name(METRICS)
    lines = pd.read_csv(path, index_col="round")
    return lines.get(column, pd.Series(dtype=float))


def of_pair(
    mine: pd.Series, baseline: pd.Series, targets: Iterable[float], window: int, smoothing: int
) -> list[dict[str, Any]]:
    """Return a line per quantity of two runs' accuracies by round, none without a common round.

    The mean of the common rounds, the mean of the last ``window`` of them, and the rounds until the centred mean of
    ``smoothing`` accuracies reaches each of ``targets``: NaN in a run that does not reach it.
    """
    common = pd.concat([mine, baseline], axis=1, join="inner", keys=["mine", "baseline"])
    if common.empty:
        return []

    def rounds_to(accuracies: pd.Series, target: float) -> float | None:
        history = {"accuracy": list(accuracies), "round": list(accuracies.index)}
        return Reading(1, smoothing, target, "accuracy", history).at_crossing("round")

    last = f"mean of the last {window} common rounds" if window > 1 else "last common round"
    means = {"mean of all common rounds": common.mean(), last: common.tail(window).mean()}
    values = {(name, "percent"): tuple(both) for name, both in means.items()}
    for target in targets:
        both = rounds_to(mine, target), rounds_to(baseline, target)
        if both != (None, None):
            values[f"rounds to {100 * target:g} %", "rounds"] = both
    about = {"round": common.index[-1], "mine_rounds": mine.index[-1], "baseline_rounds": baseline.index[-1]}
    return [
        {"quantity": quantity, "unit": unit, **about, "mine_value": mine_value, "baseline_value": baseline_value}
        for (quantity, unit), (mine_value, baseline_value) in values.items()
    ]


def with_means(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the ``lines`` of pairs with their difference, each group with its mean and sample deviation over seeds.

    The mean is of the pairs with the latest common round, if they are several and all have a difference.
    """
    numbers = lines[["mine_value", "baseline_value"]].astype(float)
    lines = lines.assign(**numbers, difference=numbers["mine_value"] - numbers["baseline_value"])
    parts = []
    for _, part in lines.groupby(GROUP, sort=False):
        latest = part[part["round"] == part["round"].max()]
        parts.append(part)
        if len(latest) > 1 and latest["difference"].notna().all():
            means = latest[["mine_value", "baseline_value", "difference"]].mean()
            seeds, deviation = ";".join(latest["seed"]), latest["difference"].std()
            parts.append(latest.iloc[:1].assign(seed=seeds, deviation=deviation, **means))
    return pd.concat(parts, ignore_index=True).reindex(columns=[*lines.columns, "deviation"])


def text(lines: pd.DataFrame, label: str) -> str:
    """Return the ``lines`` of one protocol and split as a grid; ``label``: the name of the method."""
    rows = []
    for line in lines.itertuples():
        values = (line.mine_value, line.mine_rounds), (line.baseline_value, line.baseline_rounds)
        numbers = (f">{done}" if pd.isna(value) else written(value, None, line.unit) for value, done in values)
        unit = "pp" if line.unit == "percent" else line.unit
        change = "" if pd.isna(line.difference) else signed(line.difference, unit)
        change += "" if pd.isna(line.deviation) else f" ± {written(line.deviation, None, unit)}"
        seeds = f"{line.seed.count(';') + 1} seeds" if ";" in line.seed else line.seed
        rows.append((line.quantity, line.label, seeds, line.round, *numbers, change))
    columns = ["", "baseline", "seed", "round", label, "baseline", "difference"]
    return pd.DataFrame(rows, columns=columns).to_string(index=False)


def seeds_apart(
    published: Mapping[str, RunRecord], like: RunRecord, column: str, window: int
) -> tuple[str, float] | None:
    """Return the published algorithm whose first two seeds lie farthest apart at their last common round, and how far.

    Its runs have the scale, split, dataset, model and rounds of ``like``; None without such a row.
    """
    keys = ("scale", "split", "dataset", "model", "rounds")
    folders: dict[str, dict[int, str]] = {}
    for folder, record in published.items():
        if all(getattr(record.config, key) == getattr(like.config, key) for key in keys):
            folders.setdefault(record.config.algorithm, {}).setdefault(record.config.seed, folder)
    apart = {}
    for algorithm, by_seed in folders.items():
        if len(by_seed) > 1:
            first_two = [by_seed[seed] for seed in sorted(by_seed)[:2]]
            pair = [accuracies(folder, published[folder], column) for folder in first_two]
            first, second = pd.concat(pair, axis=1, join="inner").tail(window).mean()
            apart[algorithm] = abs(first - second)
    return max(apart.items(), key=lambda item: item[1], default=None)
