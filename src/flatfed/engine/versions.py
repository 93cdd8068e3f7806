"""The versions of what decides a run's numbers. A run is stale when one of its versions differs.

A version is a number in the component's own file. Increase it when a change alters the component's numbers, that is
mathematics or random draws; a change of rounding alone keeps it. Golden values guard the versions
(``tests/oracle/test_golden_values.py``).
"""

from __future__ import annotations

from typing import Any

from flatfed import algorithms, models
from flatfed.runs.source_code import syntax_digest

#: The version of the engine: rounds, sampling of clients, batches, augmentation, evaluation, topologies.
ENGINE = 1


def of_run(description: dict[str, Any]) -> dict[str, int | str]:
    """Return the versions of the engine, and of the algorithm, model and partition scheme of a run ``description``."""
    from flatfed.data.schemes import VERSIONS

    return {
        "engine": ENGINE,
        "algorithm": of_algorithm(description["update"]["name"]),
        "model": of_model(description["model"]["name"]),
        "partition": VERSIONS[description["partition"]["scheme"]],
    }


def of_algorithm(name: str) -> int | str:
    """Return the version of an algorithm.

    A user's algorithm has no number: the digest of its file's syntax tree, and of the ``_*.py`` in its folder.
    """
    own = algorithms.own_files(name)
    return syntax_digest(own) if own else algorithms.load(name).version


def of_model(name: str) -> int | str:
    """Return the version of a model; of a user's, the digest as of an algorithm."""
    own = models.own_files(name)
    return syntax_digest(own) if own else models.card(name).version
