"""The data of a run and how they are dealt, held against its description before anything is trained or measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flatfed.data import dataset as datasets
from flatfed.data import partition as partitions
from flatfed.errors import DataError
from flatfed.runs.identity import check_partition

HASHED = 4 << 30  # datasets up to this size are hashed before every run; larger ones take minutes


@dataclass(frozen=True)
class Identity:
    """All that a run is made of, as in its record: SHA-256 digests, and the versions of the code.

    ``weights_digest``: of the weights that it begins with, None where they are drawn.
    """

    description_digest: str
    partition_digest: str
    dataset_digest: str
    versions: dict[str, int | str]
    weights_digest: str | None = None


def load_data(
    description: dict[str, Any], dataset: Any, partition: Any
) -> tuple[datasets.Dataset, partitions.Partition]:
    """Return data and partition, checked against the description; a dataset that is not its digest's is refused.

    Of a description with a ``validation`` share, the partition has a part of that size held out, and no test images.
    """
    data = datasets.load(dataset)
    dealt = partitions.load(partition)
    _check(description, data, dealt, str(dataset), str(partition))
    if data.images.nbytes <= HASHED:
        datasets.verify(dataset)
    if "validation" in description:
        dealt = partitions.hold_out(dealt, data.labels, description["validation"], int(description["seed"]))
    return data, dealt


def _check(
    description: dict[str, Any], data: datasets.Dataset, dealt: partitions.Partition, dataset: str, partition: str
) -> None:
    """Refuse data that are not those of the description, naming both."""
    wanted = description["dataset"]
    if list(data.images.shape[1:]) != list(wanted["shape"]):
        raise DataError(
            f"{dataset}: images of shape {list(data.images.shape[1:])}, but dataset {wanted['name']!r} of the run "
            f"has {wanted['shape']} (channels, height, width)"
        )
    if data.classes != wanted["classes"]:
        raise DataError(f"{dataset}: {data.classes} classes, but the run's {wanted['name']!r} has {wanted['classes']}")
    if len(dealt.indices) and int(dealt.indices.max()) >= len(data.labels):
        raise DataError(f"{partition}: deals image {int(dealt.indices.max())}, but {dataset} has {len(data.labels)}")
    check_partition(partition, dealt.spec, description)
    clients = len(dealt.offsets) - 1
    if clients != description["partition"]["clients"]:
        raise DataError(f"{partition}: {clients} clients, but the run has {description['partition']['clients']}")
    made_from = dealt.spec.get("dataset_digest", data.digest)
    if made_from != data.digest:
        raise DataError(
            f"{partition}: was dealt from other data than {dataset} holds (digests {made_from[:12]} and "
            f"{data.digest[:12]}); make the partition again"
        )
