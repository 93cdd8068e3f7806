"""The error for a target that no rule produces."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from flatfed.errors import ConfigError, nearest
from flatfed.plan import Experiment
from flatfed.runs.paths import SCALES


def files(experiment: Experiment) -> list[str]:
    """Return the tables, figures and reports of both scales."""
    paths = experiment.paths
    requested = [paths.errata]
    for scale in SCALES:
        tables, drawn = experiment.existing(scale, experiment.everything)
        requested += [paths.report(scale), *paths.outputs(scale, tables, drawn)]
    return requested


def refuse(experiment: Experiment, target: str, rules: Iterable[str]) -> None:
    """Raise a ConfigError for ``target``, with the nearest target and the kinds of targets.

    Accepts targets outside the results without a similar target: a rule of the user may produce them.
    """
    paths = files(experiment)
    by_name = {Path(file).stem: file for file in reversed(paths)}  # preview before paper
    near = None if target.startswith("/") else by_name.get(Path(target).stem)  # the file of this name
    if near is None or "/" in target:
        near = nearest(target, [*rules, *paths, *by_name]) or near
    near = by_name.get(near, near)
    if near or target.startswith(f"{experiment.paths.results}/"):
        raise ConfigError(
            f"target {target!r}: no rule makes it; {f'did you mean {near!r}? ' if near else ''}targets are rules "
            f"({', '.join(sorted(rules))}) and files, such as "
            f"{experiment.paths.table('preview', next(iter(experiment.tables)))[1]}"
        )
