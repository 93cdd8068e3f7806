"""What run.json says about the runs of a report: cost, versions, and the settings that were really used."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.runs import record as records
from flatfed.runs.wanted import Wanted

#: Parts of a description that name the run rather than set it up, or that vary with split and seed by design.
NAMES = ("format", "scale", "protocol", "split", "algorithm", "seed", "partition", "sampling", "dataset")


@dataclass(frozen=True)
class Run:
    """One run as a report shows it; ``state`` is "finished", "diverged in round 12", "unfinished" or "missing"."""

    folder: str
    protocol: str
    split: str
    algorithm: str
    seed: str
    state: str
    about: dict[str, Any]

    @property
    def seconds_per_round(self) -> float | None:
        """Wall seconds per round, evaluation and neighbours included."""
        done = self.about.get("rounds_done")
        return self.about["seconds"] / done if done else None


def read(asked: Iterable[Wanted]) -> list[Run]:
    """Return the runs that are ``asked`` for, in that order; one that is not there has the state "missing".

    :raises DataError: a run.json is there but is not one, or of another run than is asked for, or metrics.csv is not
        the one it was written with.
    """
    return [_read(wanted) for wanted in asked]


def _read(wanted: Wanted) -> Run:
    folder = Path(wanted.folder)
    names = folder.parts[-4:]
    protocol, split, algorithm, seed = ("?",) * (4 - len(names)) + names
    named = {"folder": str(folder), "protocol": protocol, "split": split, "algorithm": algorithm}
    named["seed"] = seed.removeprefix("seed")
    about = wanted.record()
    if about is None:
        return Run(**named, state="missing", about={})
    records.hold(folder, about, records.METRICS)
    done, diverged = about["rounds_done"], about["diverged_at"]
    state = "finished" if done >= about["description"]["rounds"] else "unfinished"
    return Run(**named, state=state if diverged is None else f"diverged in round {diverged}", about=about)


def environments(runs: list[Run]) -> list[tuple[str, int]]:
    """Return the distinct machines and versions runs were made with, each with its number of runs, most first."""
    counts: dict[str, int] = defaultdict(int)
    for run in runs:
        if run.about:
            host = run.about.get("host") or {}
            where = [host.get("gpu") if run.about.get("device", "").startswith("cuda") else None, host.get("processor")]
            where += [f"with {' '.join(host['instructions'])}" if host.get("instructions") else None]
            versions = [f"{name} {version}" for name, version in sorted((run.about.get("versions") or {}).items())]
            counts[", ".join([*[text for text in where if text], *versions])] += 1
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def settings(runs: list[Run]) -> list[tuple[str, dict[str, str], list[tuple[str, dict[str, str]]]]]:
    """Return per protocol the settings common to all its runs, and per algorithm those that are its own.

    Splits and seeds are left out: they are the columns and repeats of the tables.
    """
    protocols: dict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    for run in runs:
        if run.about:
            flat = dict(flatten({k: v for k, v in run.about["description"].items() if k not in NAMES}))
            protocols[run.protocol].setdefault(run.algorithm, flat)
    result = []
    for protocol, algorithms in sorted(protocols.items()):
        first = next(iter(algorithms.values()))
        common = {k: v for k, v in first.items() if all(flat.get(k) == v for flat in algorithms.values())}
        own = [(name, {k: v for k, v in flat.items() if k not in common}) for name, flat in algorithms.items()]
        result.append((protocol, common, own))
    return result


def flatten(tree: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return the leaves of nested mappings as (dotted name, JSON text)."""
    leaves = []
    for key, value in tree.items():
        if isinstance(value, dict):
            leaves += flatten(value, f"{prefix}{key}.")
        else:
            leaves.append((prefix + key, value if isinstance(value, str) else json.dumps(value)))
    return leaves
