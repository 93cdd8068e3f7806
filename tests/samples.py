"""Exhaustive families of tests: whole in `make test-all`, a fixed sample of each in `make test`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

#: Run by `make test-all` alone.
full = pytest.mark.full

#: One algorithm of each kind: adaptive server, control variates, dual variables, gossip, masks, all data at one place.
ALGORITHMS = ("fedadam", "scaffold", "fedsmoo", "fedlesam_d", "dfedsam_mgs", "dispfl", "centralised_sam")

#: The samples of families whose members take a second or more.
FEW = ("fedsmoo", "dispfl")


def sampled(values: Iterable[Any], sample: Iterable[Any] = ALGORITHMS) -> list[Any]:
    """Return ``values`` as parameters of a test; those outside ``sample`` are run by `make test-all` alone."""
    sample = list(sample)
    return [value if value in sample else pytest.param(value, marks=full) for value in values]
