"""The parameters of sweeps: their values in runs and in labels, and the variants that set them."""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flatfed.config.algorithm import AlgorithmDocument
from flatfed.config.figure import Sweep
from flatfed.errors import ConfigError, unknown
from flatfed.plan import lookup
from flatfed.plan.lookup import Declared
from flatfed.runs.paths import without_label
from flatfed.runs.run import Run


class Parameter(NamedTuple):
    """A parameter of a sweep: its axis label, and the ``keys`` of a row that set it; ``values:`` are of the first key.

    ``compute``: its value from a run's training settings, hyper-parameters, clients and fraction of active clients;
    None: the value of its name.
    """

    axis: str
    keys: tuple[str, ...] = ()
    compute: Callable[[dict[str, Any]], float] | None = None


#: Name in panels and labels -> parameter.
PARAMETERS = {
    "active_clients": Parameter(
        "Clients active in a round (expected)", compute=lambda values: values["clients"] * values["fraction"]
    ),
    "clients": Parameter("Clients"),
    "local_epochs": Parameter("Local epochs $K$ of a round", ("local_epochs",)),
    "learning_rate_decay": Parameter("Learning rate's decay per round", ("learning_rate_decay",)),
    "rho": Parameter(r"Perturbation radius $\rho$", ("rho",)),
    "alpha": Parameter(r"Weight $\beta$ of the fresh gradient", ("alpha",)),
    "beta": Parameter(r"Penalised coefficient $\beta$", ("penalty",), lambda values: 1 / values["penalty"]),
    "rho_per_learning_rate": Parameter(
        r"$\rho / \eta_l$", ("rho", "learning_rate"), lambda values: values["rho"] / values["learning_rate"]
    ),
}


def declare_variants(figure: Declared, algorithms: dict[str, Declared]) -> None:
    """Add the variants of the ``values:`` of a ``figure`` to the declared ``algorithms``.

    :raises ConfigError: the id of a variant is declared with other settings.
    """
    document = figure.content
    for index, panel in enumerate(document.panels if isinstance(document, Sweep) else ()):
        keys = PARAMETERS[panel.parameter].keys if panel.parameter in PARAMETERS else ()
        rows = [row for row in panel.rows or document.rows or () if row in algorithms and "~" not in row]
        for row, key, number in itertools.product(rows, keys[:1], panel.scales_of_values):
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
    parameters = [name for _, name, _, _ in string.Formatter().parse(text) if name]
    return text.format(**{name: value(name, run) for name in parameters})


def value(parameter: str, run: Run) -> float:
    """Return the value of a parameter in ``run``; ConfigError if its algorithm does not have it."""
    keys = {"local_epochs", "learning_rate", "learning_rate_decay"}
    training = run.config.model_dump(include=keys, exclude_none=True)
    clients = {"clients": run.config.partition.clients, "fraction": run.config.sampling.fraction}
    values = {**run.config.update.params, **training, **clients}
    compute = PARAMETERS[parameter].compute or (lambda values: values[parameter])
    try:
        return compute(values)
    except KeyError:
        where = f"config/figures: {run.algorithm} in {run.protocol}"
        raise ConfigError(unknown("parameter", parameter, [n for n in PARAMETERS if n in values], where)) from None


def check_label(label: str, where: str) -> None:
    """Refuse a label with unknown parameters, or with braces that are none."""
    try:
        label.format(**dict.fromkeys(PARAMETERS, 1.0))
    except KeyError as error:
        lookup.check("parameter", error.args[0], PARAMETERS, where)
    except (AttributeError, IndexError, ValueError) as error:
        raise ConfigError(f"{where}: {label!r}: {error}; write a parameter in braces, as in {{rho:g}}") from None
