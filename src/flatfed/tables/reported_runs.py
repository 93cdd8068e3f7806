"""The runs of a report: cost, last accuracy, machines, versions, settings."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flatfed.runs.paths import RunIds
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

    folder: str
    ids: RunIds
    state: str
    record: RunRecord | None
    accuracy: str = ""
    accuracies: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))

    @property
    def last(self) -> float | None:
        """The last accuracy."""
        return self.accuracies.iloc[-1] if len(self.accuracies) else None

    @property
    def seconds_per_round(self) -> float | None:
        """Wall seconds per round, including evaluation."""
        record = self.record
        return record.seconds / record.rounds_done if record and record.seconds and record.rounds_done else None


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
    def accuracy(self) -> str:
        """The name of their accuracy, or ""."""
        return next((run.accuracy for run in self.runs if run.last is not None), "")

    @property
    def accuracies(self) -> pd.DataFrame:
        """The accuracies by round and seed."""
        return pd.DataFrame({run.ids.seed: run.accuracies for run in self.runs if len(run.accuracies)})


def groups(runs: Iterable[ReportedRun]) -> list[Group]:
    """Return ``runs`` by protocol, split and algorithm, in their order."""
    members: dict[str, list[ReportedRun]] = defaultdict(list)
    for run in runs:
        members[f"run/{run.ids.row}"].append(run)
    return [Group(anchor, of_group) for anchor, of_group in members.items()]


def read(run: Run) -> ReportedRun:
    """Read a run.

    :raises DataError: run.json is damaged or of another run, or metrics.csv is damaged or changed.
    """
    record = run.read_record()
    if record is None:
        return ReportedRun(run.path, run, "missing", None)
    history = read_history(Path(run.path), record, ("round",), every=True)
    accuracy = next((name for name in ACCURACIES if name in history), "")
    accuracies = pd.Series(history.get(accuracy), history["round"], dtype=float)
    state = "finished" if record.ended else "unfinished"
    if record.diverged_at is not None:
        state = f"diverged in round {record.diverged_at}"
    return ReportedRun(run.path, run, state, record, accuracy.replace("_", " "), accuracies[np.isfinite(accuracies)])


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
            protocols[run.ids.protocol].setdefault(run.ids.algorithm, flat)
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
