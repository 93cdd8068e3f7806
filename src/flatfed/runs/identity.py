"""Checks that a record is of the requested run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from flatfed.errors import DataError
from flatfed.runs.record import RunRecord
from flatfed.runs.run_config import RunConfig

REMEDY = "remove the run's folder, and the next call trains the run again"

#: A remedy for other data.
ORDER = "If its source has another order of images than the run, use the key `order` (docs/running.md)."


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


def deciding_differences(recorded: RunConfig, requested: RunConfig) -> list[str]:
    """Return :func:`difference_texts` of the settings that decide the numbers of two runs."""
    return difference_texts(recorded.deciding, requested.deciding)


def check_config(where: str, record: RunRecord, requested: RunConfig) -> None:
    """Raise DataError with every different key if ``record``, in file ``where``, is of another run."""
    if texts := deciding_differences(record.config, requested):
        raise DataError(f"{where}: not the requested run: {'; '.join(texts)}; {REMEDY}")


def check_partition(where: str, spec: dict[str, Any], config: RunConfig) -> None:
    """Raise DataError with every different key if ``spec``, of file ``where``, is not the run's partition."""
    requested = {**config.partition.as_written(), "seed": config.seed}
    actual = {key: value for key, value in spec.items() if key != "dataset_digest"}
    if texts := difference_texts(actual, requested, "the run has"):
        raise DataError(f"{where}: not the partition of the run: {'; '.join(texts)}; delete the file to rebuild it")


def check_data(where: str, record: RunRecord, partition: str) -> None:
    """Raise DataError if the run of ``record``, in file ``where``, was not trained on ``partition``."""
    from flatfed.data import partition as partitions  # imports NumPy

    current = partitions.load(partition)
    check_partition(partition, current.spec, record.config)
    digests = {"partition_digest": current.digest, "dataset_digest": current.spec.get("dataset_digest")}
    for key, digest in digests.items():
        recorded = getattr(record, key)
        if digest not in (None, recorded):
            data = f"{key} is {recorded[:12]}, but that of {partition} is {digest[:12]}"
            raise DataError(f"{where}: {data}: the run was trained on other data; {REMEDY}. {ORDER}")
