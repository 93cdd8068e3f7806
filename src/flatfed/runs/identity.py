"""Checks that a record is of the requested run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from flatfed.errors import DataError
from flatfed.runs.record import RunRecord

#: Keys of a description that change the numbers of a run by rounding at most.
EXECUTION_KEYS = frozenset({"format", "checkpoint_every", "executor", "evaluation.batch_size", "emulate_bfloat16"})

#: Keys without effect on the numbers: a run may resume after they change.
NEUTRAL_KEYS = frozenset({"checkpoint_every", "emulate_bfloat16"})

REMEDY = "remove the run's folder, and the next call trains the run again"


def differences(recorded: Any, requested: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (key, recorded, requested) for every difference of two nested dictionaries; None for an absent value."""
    if isinstance(recorded, dict) and isinstance(requested, dict):
        for name in sorted(recorded.keys() | requested.keys()):
            yield from differences(recorded.get(name), requested.get(name), f"{key}.{name}" if key else name)
    elif recorded != requested:
        yield key, recorded, requested


def difference_texts(recorded: Any, requested: Any, label: str = "here") -> list[str]:
    """Return "key is <recorded>, <label> <requested>" for each of the :func:`differences`."""
    return [f"{key} is {json.dumps(a)}, {label} {json.dumps(b)}" for key, a, b in differences(recorded, requested)]


def deciding_values(description: dict[str, Any]) -> dict[str, Any]:
    """Return {dotted key: value} of the values, not None, that decide the run's numbers."""
    leaves = _leaves(description)
    return {key: value for key, value in leaves if not EXECUTION_KEYS & {key, key.partition(".")[0]}}


def _leaves(tree: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{name}.")
        elif value is not None:
            yield f"{above}{name}", value


def deciding_differences(recorded: dict[str, Any], requested: dict[str, Any]) -> list[str]:
    """Return :func:`difference_texts` of the :func:`deciding_values` of two descriptions."""
    return difference_texts(deciding_values(recorded), deciding_values(requested))


def check_description(where: str, record: RunRecord, requested: dict[str, Any]) -> None:
    """Raise DataError with every different key if ``record``, in file ``where``, is of another run."""
    if texts := deciding_differences(record.description, requested):
        raise DataError(f"{where}: not the requested run: {'; '.join(texts)}; {REMEDY}")


def check_partition(where: str, spec: dict[str, Any], description: dict[str, Any]) -> None:
    """Raise DataError with every different key if ``spec``, of file ``where``, is not the run's partition."""
    requested = {**description["partition"], "seed": description["seed"]}
    actual = {key: value for key, value in spec.items() if key != "dataset_digest"}
    if texts := difference_texts(actual, requested, "the run has"):
        raise DataError(f"{where}: not the partition of the run: {'; '.join(texts)}; delete the file to rebuild it")


def check_data(where: str, record: RunRecord, partition: str) -> None:
    """Raise DataError if the run of ``record``, in file ``where``, was not trained on ``partition``."""
    from flatfed.data import partition as partitions  # imports NumPy

    current = partitions.load(partition)
    check_partition(partition, current.spec, record.description)
    digests = {"partition_digest": current.digest, "dataset_digest": current.spec.get("dataset_digest")}
    for key, digest in digests.items():
        recorded = getattr(record, key)
        if digest not in (None, recorded):
            data = f"{key} is {recorded[:12]}, but that of {partition} is {digest[:12]}"
            raise DataError(f"{where}: {data}: the run was trained on other data; {REMEDY}")
