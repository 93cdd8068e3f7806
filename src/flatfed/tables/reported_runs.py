"""The runs of a report: cost, last accuracy, machines, versions, settings."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flatfed.runs.record import RunRecord
from flatfed.runs.run import Run
from flatfed.tables.readings import chip, read_history

#: Settings that identify the run or vary with split and seed.
NOT_SETTINGS = {"format", "scale", "protocol", "split", "algorithm", "seed", "partition", "sampling", "dataset"}

#: Accuracies in metrics.csv; the report shows the first one of a run.
ACCURACIES = ("test_accuracy", "client_test_accuracy", "validation_accuracy", "train_accuracy")


@dataclass(frozen=True)
class ReportedRun:
    """One run; ``state``: "finished", "diverged in round 12", "unfinished", "missing"; ``accuracies``: by round."""

    run: Run
    state: str
    record: RunRecord | None
    accuracies: pd.Series


@dataclass(frozen=True)
class Group:
    """The runs of one protocol, split and algorithm; ``id``: their anchor on the page."""

    id: str
    runs: list[ReportedRun]

    @property
    def seconds(self) -> float:
        """Wall seconds of all runs."""
        return sum(run.record.seconds or 0.0 for run in self.runs if run.record)

    @property
    def accuracies(self) -> pd.DataFrame:
        """The accuracies by round and seed; the columns are named after their metric."""
        shown = {run.run.seed: run.accuracies for run in self.runs if len(run.accuracies)}
        return pd.DataFrame(shown).rename_axis(columns=next((column.name for column in shown.values()), ""))


def groups(runs: Iterable[ReportedRun]) -> list[Group]:
    """Return ``runs`` by protocol, split and algorithm, in their order."""
    members: dict[str, list[ReportedRun]] = defaultdict(list)
    for run in runs:
        members[f"run/{run.run.row}"].append(run)
    return [Group(anchor, of_group) for anchor, of_group in members.items()]


def read(run: Run) -> ReportedRun:
    """Read a run.

    :raises DataError: run.json is damaged or of another run, or metrics.csv is damaged or changed.
    """
    record = run.read_record()
    if record is None:
        return ReportedRun(run, "missing", None, pd.Series(dtype=float))
    history = read_history(Path(run.path), record, ("round",), every=True)
    name = next((name for name in ACCURACIES if name in history), "")
    accuracies = pd.Series(history.get(name), history["round"], dtype=float, name=name.replace("_", " "))
    state = "finished" if record.ended else "unfinished"
    if record.diverged_at is not None:
        state = f"diverged in round {record.diverged_at}"
    return ReportedRun(run, state, record, accuracies[np.isfinite(accuracies)])


def environments(records: Iterable[RunRecord]) -> list[tuple[str, int]]:
    """Return (machine and versions, number of runs), most first."""
    counts: Counter[str] = Counter()
    for record in records:
        host = record.host or {}
        parts = [host.get("gpu") if record.device == "cuda" else None, host.get("processor")]
        parts += [f"with {' '.join(host['instructions'])}" if host.get("instructions") else None]
        parts += [f"{name} {version}" for name, version in sorted((record.libraries or {}).items())]
        counts[", ".join(filter(None, parts))] += 1
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def days_and_chips(records: Collection[RunRecord]) -> tuple[str, str]:
    """Return the days on which runs finished, "2026-11-21 to 2026-11-22", and their chips."""
    days = sorted({record.finished[:10] for record in records if record.finished})
    chips = dict.fromkeys(filter(None, map(chip, records)))
    return " to ".join(dict.fromkeys([*days[:1], *days[-1:]])), ", ".join(chips)


def settings(runs: Iterable[ReportedRun]) -> list[tuple[str, dict[str, str], list[tuple[str, dict[str, str]]]]]:
    """Return (protocol, common settings, other settings per algorithm)."""
    protocols: dict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    for run in runs:
        if run.record:
            flat = flatten(run.record.config.model_dump(exclude_defaults=True, exclude=NOT_SETTINGS))
            protocols[run.run.protocol].setdefault(run.run.algorithm, flat)
    result = []
    for protocol, algorithms in sorted(protocols.items()):
        first = next(iter(algorithms.values()))
        common = {k: v for k, v in first.items() if all(flat.get(k) == v for flat in algorithms.values())}
        special = [(name, {k: v for k, v in flat.items() if k not in common}) for name, flat in algorithms.items()]
        result.append((protocol, common, special))
    return result


def flatten(tree: dict[str, Any]) -> dict[str, str]:
    """Return the leaves of nested mappings as dotted name -> JSON text, strings unquoted."""
    (leaves,) = pd.json_normalize(tree).to_dict("records")
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in leaves.items()}
