"""The versions of the components that determine a run's numbers.

Increase a component's version if its mathematics or random draws change, not for rounding. Golden values guard the
versions (``tests/oracle/test_golden_values.py``).
"""

from __future__ import annotations

from typing import Any

from flatfed import algorithms, models
from flatfed.runs.source_code import syntax_digest

#: Version of rounds, client sampling, batches, augmentation, evaluation and topologies.
ENGINE = 1


def of_run(description: dict[str, Any]) -> dict[str, int | str]:
    """Return the versions of a run ``description``'s components. A run is stale if one of them differs."""
    from flatfed.data.schemes import VERSIONS

    return {
        "engine": ENGINE,
        "algorithm": of_algorithm(description["update"]["name"]),
        "model": of_model(description["model"]["name"]),
        "partition": VERSIONS[description["partition"]["scheme"]],
    }


def of_algorithm(name: str) -> int | str:
    """Return an algorithm's version; for a user's, the digest of its syntax tree and its folder's ``_*.py``."""
    user_files = algorithms.own_files(name)
    return syntax_digest(user_files) if user_files else algorithms.load(name).version


def of_model(name: str) -> int | str:
    user_files = models.own_files(name)
    return syntax_digest(user_files) if user_files else models.card(name).version
