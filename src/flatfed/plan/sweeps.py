"""The parameters of sweeps: their values in runs and in labels, and the variants that set them."""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Mapping
from typing import NamedTuple

from flatfed import algorithms as registry
from flatfed.config.algorithm import AlgorithmDocument
from flatfed.config.figure import Sweep
from flatfed.errors import ConfigError
from flatfed.plan import lookup
from flatfed.plan.lookup import Declared
from flatfed.plan.protocols import OWN_TRAINING
from flatfed.runs.paths import without_label
from flatfed.runs.run import Run
from flatfed.runs.run_config import RunConfig


class Parameter(NamedTuple):
    """A parameter of a sweep: its ``axis`` label, its value in a run, and the ``key`` of a row that ``values:`` set.

    ``compute`` returns None for a run without the parameter. ``key``: "" if only a split sets the parameter.
    """

    axis: str
    compute: Callable[[RunConfig], float | None]
    key: str = ""


#: Name in panels and labels -> parameter that no algorithm declares.
PARAMETERS = {
    "active_clients": Parameter(
        "Clients active in a round (expected)", lambda run: run.partition.clients * run.sampling.fraction
    ),
    "clients": Parameter("Clients", lambda run: run.partition.clients),
    "local_epochs": Parameter("Local epochs $K$ of a round", lambda run: run.local_epochs, "local_epochs"),
    "learning_rate_decay": Parameter(
        "Learning rate's decay per round", lambda run: run.learning_rate_decay, "learning_rate_decay"
    ),
    "beta": Parameter(r"Penalised coefficient $\beta$", lambda run: 1 / run.update.params["penalty"], "penalty"),
    "rho_per_learning_rate": Parameter(
        r"$\rho / \eta_l$", lambda run: run.update.params["rho"] / run.learning_rate, "rho"
    ),
}


def parameters(row: str) -> dict[str, Parameter]:
    """Return name -> parameter of ``row``: the numbers that its algorithm declares, and :data:`PARAMETERS`."""
    declared = registry.load(without_label(row)).parameters()
    shared = {name: entry for name, entry in PARAMETERS.items() if entry.key in {"", *OWN_TRAINING, *declared}}
    numbers = [name for name, entry in declared.items() if isinstance(entry, registry.Number | registry.Whole)]
    return shared | {name: Parameter(name, lambda run, key=name: run.update.params[key], name) for name in numbers}


def declare_variants(figure: Declared, algorithms: dict[str, Declared]) -> None:
    """Add the variants of the ``values:`` of a ``figure`` to the declared ``algorithms``.

    :raises ConfigError: the id of a variant is declared with other settings.
    """
    document = figure.content
    for index, panel in enumerate(document.panels if isinstance(document, Sweep) else ()):
        rows = [row for row in panel.rows or document.rows or () if row in algorithms and "~" not in row]
        keys = {row: entry.key for row in rows if (entry := parameters(row).get(panel.parameter)) and entry.key}
        for (row, key), number in itertools.product(keys.items(), panel.scales_of_values):
            added = Declared(AlgorithmDocument(set={key: number}), figure.file, f"panels[{index}].values")
            name = variant(row, key, number, {id_: entry.content for id_, entry in algorithms.items()})
            earlier = algorithms.setdefault(name, added)
            if earlier.content.set != added.content.set:
                problem = f"{number:g} needs the id {name!r}, which has other settings in {earlier.where}"
                raise ConfigError(f"{added.where}: {problem}; rename that one")


def variant(row: str, key: str, number: float, algorithms: Mapping[str, AlgorithmDocument]) -> str:
    """Return the id of the declared variant of ``row`` that sets ``key`` alone, to ``number``; else one for it."""
    same = (name for name, entry in algorithms.items() if entry.set == {key: number} and without_label(name) == row)
    return next(same, f"{row}~{key}{number:.12g}".replace("+", ""))


def label(text: str, run: Run) -> str:
    """Return a label with the values of ``run`` in place of the parameters in braces."""
    names = [name for _, name, _, _ in string.Formatter().parse(text) if name]
    return text.format(**{name: value(name, run) for name in names})


def value(parameter: str, run: Run) -> float:
    """Return the value of a parameter in ``run``; ConfigError if the run has none."""
    number = parameters(run.algorithm)[parameter].compute(run.config)
    if number is None:
        where = f"config/figures: {run.algorithm} in {run.protocol}"
        raise ConfigError(f"{where}: no {parameter}; another key takes its place")
    return number


def check_label(label: str, row: str, where: str) -> None:
    """Refuse a label with parameters that ``row`` does not have, or with braces that are none."""
    known = parameters(row)
    try:
        label.format(**dict.fromkeys(known, 1.0))
    except KeyError as error:
        lookup.check("parameter", error.args[0], known, where)
    except (AttributeError, IndexError, ValueError) as error:
        raise ConfigError(f"{where}: {label!r}: {error}; write a parameter in braces, as in {{rho:g}}") from None
