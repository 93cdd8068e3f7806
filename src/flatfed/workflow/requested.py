"""The error for a target that no rule produces."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from flatfed.errors import ConfigError, nearest
from flatfed.experiment import Experiment, scales
from flatfed.runs.places import SCALES


def files(experiment: Experiment) -> list[str]:
    """Return the files of both scales that users request: tables, figures and reports."""
    places = experiment.places
    paths = [places.errata]
    for scale in SCALES:
        tables, drawn = scales.existing(experiment, scale, experiment.everything)
        paths += [places.report(scale), *places.made(scale, [table for table, _ in tables], drawn)]
    return paths


def refuse(experiment: Experiment, target: str, rules: Iterable[str]) -> None:
    """Raise a ConfigError for ``target``, which no rule produces: the nearest target, and all kinds of targets.

    Accept a target outside the results that resembles no known one: a later rule of the user may produce it.
    """
    paths = files(experiment)
    # A bare name means the first file of that name: preview before paper.
    by_name = {Path(file).stem: file for file in reversed(paths)}
    same_name = by_name.get(Path(target).stem) if not target.startswith("/") else None
    near = same_name if "/" not in target and same_name else nearest(target, [*rules, *paths, *by_name]) or same_name
    near = by_name.get(near, near)
    if near or target.startswith(f"{experiment.places.results}/"):
        raise ConfigError(
            f"target {target!r}: no rule makes it; {f'did you mean {near!r}? ' if near else ''}Targets are rules "
            f"({', '.join(sorted(rules))}) and files, such as "
            f"{experiment.places.table('preview', next(iter(experiment.tables)))[1]}"
        )
