"""The message for a target that no rule makes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from flatfed.errors import ConfigError, nearest
from flatfed.experiment import Experiment, scales
from flatfed.runs.places import SCALES


def files(experiment: Experiment) -> list[str]:
    """Return the files of both scales that a person asks for: tables, figures and reports."""
    places = experiment.places
    found = [places.errata]
    for scale in SCALES:
        tables, drawn = scales.there(experiment, scale, experiment.everything)
        found += [places.report(scale), *places.made(scale, [table for table, _ in tables], drawn)]
    return found


def refuse(experiment: Experiment, target: str, rules: Iterable[str]) -> None:
    """Raise a ConfigError for ``target``, which no rule makes: the nearest rule or file, what can be asked for.

    What is like none of them, and lies elsewhere, may be made by a rule of the user's that is read later.
    """
    known = files(experiment)
    # Of a name alone, the first file of that name: preview before paper, where there are both.
    by_name = {Path(file).stem: file for file in reversed(known)}
    named = by_name.get(Path(target).stem) if not target.startswith("/") else None
    near = named if "/" not in target and named else nearest(target, [*rules, *known, *by_name]) or named
    near = by_name.get(near, near)
    if near or target.startswith(f"{experiment.places.results}/"):
        raise ConfigError(
            f"target {target!r}: no rule makes it; {f'did you mean {near!r}? ' if near else ''}Targets are rules "
            f"({', '.join(sorted(rules))}) and files, such as "
            f"{experiment.places.table('preview', next(iter(experiment.tables)))[1]}"
        )
