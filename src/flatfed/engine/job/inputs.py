"""A run's dataset and partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flatfed.data import dataset as datasets
from flatfed.data import partition as partitions
from flatfed.errors import DataError
from flatfed.runs.run_config import RunConfig


@dataclass(frozen=True)
class Identity:
    """All inputs of a run: SHA-256 digests and versions of the code.

    ``weights_digest``: of pre-trained weights, if any.
    """

    description_digest: str
    partition_digest: str
    dataset_digest: str
    versions: dict[str, int | str]
    weights_digest: str | None = None


def load_data(config: RunConfig, dataset: Any, partition: Any) -> tuple[datasets.Dataset, partitions.Partition]:
    """Return dataset and partition, checked against the run's settings, the dataset's digest and each other.

    With ``validation``, that share of the partition is held out and the test images are removed.
    """
    data, members = datasets.load(dataset), partitions.load(partition)
    _check(config, data, members, str(dataset), str(partition))
    datasets.verify(dataset)
    partitions.check(members, data, str(partition))
    if config.validation is not None:
        members = partitions.hold_out(members, data.labels, config.validation, config.seed)
    return data, members


def _check(
    config: RunConfig, data: datasets.Dataset, members: partitions.Partition, dataset: str, partition: str
) -> None:
    expected, shape = config.dataset, list(data.images.shape[1:])
    for what, found in (("shape", shape), ("classes", data.classes)):
        if found != (requested := getattr(expected, what)):
            run = f"dataset {expected.name!r} of the run has {requested}"
            raise DataError(f"{dataset}: {what} {found}, but {run}")
    if len(members.indices) and (last := int(members.indices.max())) >= len(data.labels):
        raise DataError(f"{partition}: contains image {last}, but {dataset} has {len(data.labels)}")
    config.check_partition(partition, members.spec)
    clients = len(members.offsets) - 1
    if clients != config.partition.clients:
        raise DataError(f"{partition}: {clients} clients, but the run has {config.partition.clients}")
    digest = members.spec.get("dataset_digest", data.digest)
    if digest != data.digest:
        raise DataError(
            f"{partition}: made from other data than {dataset} (digests {digest[:12]} and {data.digest[:12]}); make "
            "the partition again"
        )
