"""What run.json says about the runs of a report: cost, versions, and the settings that were really used."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from flatfed.runs.paths import RunIds
from flatfed.runs.record import RunRecord
from flatfed.runs.run import Run
from flatfed.tables.readings import history_of

#: Parts of a description that name the run rather than set it up, or that vary with split and seed by design.
NAMES = ("format", "scale", "protocol", "split", "algorithm", "seed", "partition", "sampling", "dataset")


@dataclass(frozen=True)
class ReportedRun:
    """One run as a report shows it; ``state`` is "finished", "diverged in round 12", "unfinished" or "missing".

    ``lines``: the finite numbers of its metrics.csv by round.
    """

    folder: str
    ids: RunIds
    state: str
    about: RunRecord | None
    lines: pd.DataFrame | None = None

    @property
    def seconds_per_round(self) -> float | None:
        """Wall seconds per round, evaluation and neighbours included."""
        about = self.about
        return about.seconds / about.rounds_done if about and about.seconds and about.rounds_done else None


@dataclass(frozen=True)
class Group:
    """The runs of one protocol, split and algorithm, seed by seed; ``id`` is their anchor on a page.

    ``accuracies``: the accuracy called ``quantity`` as a fraction, by round and seed; empty if no run was evaluated.
    """

    id: str
    runs: tuple[ReportedRun, ...]
    quantity: str
    accuracies: pd.DataFrame

    @property
    def seconds(self) -> float:
        """Wall seconds of all of them, as far as their records tell."""
        return sum(run.about.seconds or 0.0 for run in self.runs if run.about)

    @property
    def last(self) -> dict[int, float]:
        """The last accuracy of every seed."""
        return {seed: column.dropna().iloc[-1] for seed, column in self.accuracies.items()}


def groups(runs: Iterable[ReportedRun]) -> list[Group]:
    """Return ``runs`` by protocol, split and algorithm, in their order."""
    found: dict[str, list[ReportedRun]] = defaultdict(list)
    for run in runs:
        found[f"run/{run.ids.row}"].append(run)
    return [Group(id_, tuple(members), *accuracies(members)) for id_, members in found.items()]


#: Columns of metrics.csv with an accuracy; the report shows the first one that a run has.
SHOWN = ("test_accuracy", "client_test_accuracy", "validation_accuracy", "train_accuracy")


def accuracies(runs: list[ReportedRun]) -> tuple[str, pd.DataFrame]:
    """Return the name of the accuracy that ``runs`` were evaluated by, and its finite values by round and seed."""
    lines = {run.ids.seed: run.lines for run in runs if run.about}
    column = next((name for name in SHOWN if any(name in each for each in lines.values())), "")
    seeds = {seed: each[column].dropna() for seed, each in lines.items() if column in each}
    return column.replace("_", " "), pd.DataFrame({seed: values for seed, values in seeds.items() if len(values)})


def read(run: Run) -> ReportedRun:
    """Return ``run`` with its record; a run without a record has the state "missing".

    :raises DataError: run.json is damaged or of another run, or metrics.csv is not the file that it was written with.
    """
    about = run.read_record()
    if about is None:
        return ReportedRun(run.path, run, "missing", None)
    history = history_of(Path(run.path), about, ("round",), every=True)
    lines = pd.DataFrame(history).set_index("round").replace([math.inf, -math.inf], math.nan)
    state = "finished" if about.ended else "unfinished"
    broke = about.diverged_at
    return ReportedRun(run.path, run, state if broke is None else f"diverged in round {broke}", about, lines)


def environments(runs: list[ReportedRun]) -> list[tuple[str, int]]:
    """Return the distinct machines and versions runs were made with, each with its number of runs, most first."""
    counts: dict[str, int] = defaultdict(int)
    for run in runs:
        if run.about:
            host = run.about.host or {}
            where = [host.get("gpu") if run.about.device == "cuda" else None, host.get("processor")]
            where += [f"with {' '.join(host['instructions'])}" if host.get("instructions") else None]
            libraries = [f"{name} {version}" for name, version in sorted((run.about.libraries or {}).items())]
            counts[", ".join([*[text for text in where if text], *libraries])] += 1
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def days_and_machines(runs: Iterable[ReportedRun]) -> tuple[str, str]:
    """Return the days on which runs were finished, "2026-11-21 to 2026-11-22", and what they were computed on."""
    done = [run.about for run in runs if run.about]
    days = sorted({about.finished[:10] for about in done if about.finished})
    places = [(about.host or {}).get("gpu" if about.device == "cuda" else "processor") for about in done]
    return " to ".join(dict.fromkeys([*days[:1], *days[-1:]])), ", ".join(dict.fromkeys(filter(None, places)))


def settings(runs: list[ReportedRun]) -> list[tuple[str, dict[str, str], list[tuple[str, dict[str, str]]]]]:
    """Return per protocol the settings common to all its runs, and per algorithm those that are its own.

    Splits and seeds are left out: they are the columns and repeats of the tables.
    """
    protocols: dict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    for run in runs:
        if run.about:
            flat = flatten({k: v for k, v in run.about.description.items() if k not in NAMES})
            protocols[run.ids.protocol].setdefault(run.ids.algorithm, flat)
    result = []
    for protocol, algorithms in sorted(protocols.items()):
        first = next(iter(algorithms.values()))
        common = {k: v for k, v in first.items() if all(flat.get(k) == v for flat in algorithms.values())}
        own = [(name, {k: v for k, v in flat.items() if k not in common}) for name, flat in algorithms.items()]
        result.append((protocol, common, own))
    return result


def flatten(tree: dict[str, Any]) -> dict[str, str]:
    """Return the leaves of nested mappings as dotted name -> JSON text; a text stays as it is."""
    (leaves,) = pd.json_normalize(tree).to_dict("records")
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in leaves.items()}
