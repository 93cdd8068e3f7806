"""Whether a record is of the run that is wanted: its description is compared key by key, its data by their digests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from flatfed.errors import DataError
from flatfed.runs.record import RunRecord

#: Keys of a description that decide how a run is trained, and change its numbers by rounding at most.
HOW = frozenset({"format", "checkpoint_every", "executor", "evaluation.batch_size", "emulate_bfloat16"})

#: Those of them that change no number: a run goes on from its checkpoint with others.
FREE = frozenset({"checkpoint_every", "emulate_bfloat16"})

#: What the user can do about a run that is not the one asked for.
MEND = "remove the run's folder, and it is made again"


def differences(theirs: Any, ours: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (key, theirs, ours) for every value in which nested dictionaries differ; what is absent is None."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted(theirs.keys() | ours.keys()):
            yield from differences(theirs.get(name), ours.get(name), f"{key}.{name}" if key else name)
    elif theirs != ours:
        yield key, theirs, ours


def in_words(theirs: Any, ours: Any, here: str = "here") -> list[str]:
    """Return "key is theirs, here ours" for every one of the :func:`differences`."""
    return [f"{key} is {json.dumps(a)}, {here} {json.dumps(b)}" for key, a, b in differences(theirs, ours)]


def deciding_values(description: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a description that decide the run's numbers: dotted key -> value.

    Keys whose value is null or an empty mapping are left out.
    """
    leaves = _leaves(description)
    return {key: value for key, value in leaves if key not in HOW and key.partition(".")[0] not in HOW}


def _leaves(tree: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{name}.")
        elif value is not None:
            yield f"{above}{name}", value


def deciding_differences(theirs: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """Return "key is theirs, here ours" for every difference of two descriptions that changes the run's numbers."""
    return in_words(deciding_values(theirs), deciding_values(ours))


def check_description(where: str, record: RunRecord, wanted: dict[str, Any]) -> None:
    """Check that ``record``, of the file ``where``, is of the run that the description ``wanted`` asks for.

    :raises DataError: it is of another run; the message names every key that differs.
    """
    if different := deciding_differences(record.description, wanted):
        raise DataError(f"{where}: not the run that is asked for: {'; '.join(different)}; {MEND}")


def check_partition(where: str, spec: dict[str, Any], description: dict[str, Any]) -> None:
    """Check by its own ``spec`` that a partition, of the file ``where``, was made as ``description`` says.

    :raises DataError: it is of another split, seed or data set; the message names every key that differs.
    """
    asked = {**description["partition"], "seed": description["seed"]}
    made_as = {key: value for key, value in spec.items() if key != "dataset_digest"}
    if words := in_words(made_as, asked, "the run has"):
        raise DataError(f"{where}: not the partition of the run: {'; '.join(words)}; delete the file to make it again")


def check_data(where: str, record: RunRecord, partition: str) -> None:
    """Check that ``record``, of the file ``where``, was trained on the data that the file ``partition`` deals.

    :raises DataError: it was not, or the partition cannot be read.
    """
    from flatfed.data import partition as partitions  # with numpy

    dealt = partitions.load(partition)
    check_partition(partition, dealt.spec, record.description)
    for key, here in {"partition_digest": dealt.digest, "dataset_digest": dealt.spec.get("dataset_digest")}.items():
        recorded = getattr(record, key)
        if here not in (None, recorded):
            data = f"{key} is {recorded[:12]}, but that of {partition} is {here[:12]}"
            raise DataError(f"{where}: {data}: the run was trained on other data; {MEND}")
