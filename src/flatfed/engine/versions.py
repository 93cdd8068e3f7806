"""The versions of the components that determine a run's numbers. A run is stale if one of its versions differs.

A version is a number in the component's own file. Increase it if a change alters mathematics or random draws; a change
of rounding keeps it. Golden values guard the versions (``tests/oracle/test_golden_values.py``).
"""

from __future__ import annotations

from typing import Any

from flatfed import algorithms, models
from flatfed.runs.source import syntax_digest

#: Version of rounds, client sampling, batches, augmentation, evaluation and topologies.
ENGINE = 1


def of_run(description: dict[str, Any]) -> dict[str, int | str]:
    """Return the versions of the engine and of a ``description``'s algorithm, model and partition scheme."""
    from flatfed.data.schemes import VERSIONS

    return {
        "engine": ENGINE,
        "algorithm": of_algorithm(description["update"]["name"]),
        "model": of_model(description["model"]["name"]),
        "partition": VERSIONS[description["partition"]["scheme"]],
    }


def of_algorithm(name: str) -> int | str:
    """Return the version of an algorithm.

    For a user's algorithm: the digest of its syntax tree and of the ``_*.py`` in its folder.
    """
    user_files = algorithms.own_files(name)
    return syntax_digest(user_files) if user_files else algorithms.load(name).version


def of_model(name: str) -> int | str:
    """Return the version of a model; for a user's model, the digest as for algorithms."""
    user_files = models.own_files(name)
    return syntax_digest(user_files) if user_files else models.card(name).version
