"""Specifications of datasets and partitions, the input of ``flatfed fetch`` and ``flatfed partition``.

The configuration imports this module: it must not import NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from flatfed.config import split
from flatfed.config.datasets import Source
from flatfed.config.document import Content, Document, optional, required
from flatfed.config.values import LAST_SEED, Count, Natural, Positive, Shape, Text
from flatfed.errors import DataError, unknown

#: Keys that ``images_of`` takes from the partition around it, or that mean nothing in it.
INHERITED = {"dataset", "classes", "seed", "client_test"}

HELP = "`python -m flatfed {command} --help` shows a complete one"


class DatasetSpecification(Document):
    name: Text = required("the dataset's name")
    classes: Count = required("number of classes")
    shape: Shape = required("[channels, height, width] of an image")
    train: Natural = optional("number of training images")
    test: Natural = optional("number of test images")
    domains: list[str] = optional("names of its domains")
    source: Source = required("where the images come from")


class PartitionSettings(Document):
    """The specification of a partition without its seed, as a run has it.

    Unknown keys stay, because they may decide results. Fields are in the order of run.json.
    """

    model_config = ConfigDict(extra="allow")

    clients: Count = required("number of clients")
    scheme: Literal[*split.SCHEMES] = required("how images are partitioned among clients")
    alpha: Positive = optional("concentration of each client's label distribution")
    assignment: Literal["different_classes", "permutation"] = optional("which shards a client may have")
    balanced: Literal[False] = optional("false; a key of earlier versions")
    classes: Count = optional("number of classes of the dataset")
    classes_per_client: Count = optional("number of classes of a client")
    client_test: Count = optional("number of test images of each client")
    clients_per_domain: Count = optional("number of clients per training domain")
    dataset: Text = optional("the name of the dataset")
    held_out: Natural = optional("index of the domain held out for testing")
    images_of: dict[str, Any] = optional("the partition whose images one client has")
    replacement: bool = optional("whether an exhausted class restarts")
    sampler: Literal["keyed"] = optional("keyed; a key of earlier versions")
    shards_per_client: Count = optional("number of shards of a client")

    @classmethod
    def of_split(cls, keys: Mapping[str, Any]) -> PartitionSettings:
        """Return the settings of a split's ``keys``, with those of earlier versions, which finished runs have."""
        earlier = {"sampler": "keyed"} | ({"balanced": False} if keys["scheme"] == "iid" else {})
        return cls(**keys, **earlier)


class PartitionSpecification(Document):
    """The keys of the partitions of all schemes."""

    dataset: Text = required("the name of the dataset")
    seed: Annotated[int, Field(ge=0, le=LAST_SEED)] = required("the seed of the draw")
    clients: Count = optional("number of clients")
    classes: Count = optional("number of classes of the dataset")
    client_test: Count = optional("number of test images of each client")
    sampler: Literal["keyed"] = optional("keyed; a key of earlier versions")


class ClientsPartition(PartitionSpecification):
    clients: Count = required("number of clients")


class LabelsPartition(ClientsPartition):
    classes: Count = required("number of classes of the dataset")


class IidPartition(ClientsPartition):
    scheme: Literal["iid"]
    balanced: Literal[False] = optional("false; a key of earlier versions")


class DirichletPartition(LabelsPartition, split.DirichletKeys):
    scheme: Literal["dirichlet"]


class GroupedDirichletPartition(LabelsPartition, split.GroupedDirichletKeys):
    scheme: Literal["grouped_dirichlet"]


class PathologicalPartition(LabelsPartition, split.PathologicalKeys):
    scheme: Literal["pathological"]


class ShardsPartition(ClientsPartition, split.ShardsKeys):
    scheme: Literal["shards"]
    assignment: Literal["different_classes", "permutation"] = required("which shards a client may have")


class DomainPartition(PartitionSpecification, split.DomainKeys):
    scheme: Literal["domain"]
    held_out: Natural = required("index of the domain held out for testing")


class CentralPartition(PartitionSpecification):
    scheme: Literal["central"]
    images_of: dict[str, Any] = optional("the partition whose images one client has")

    @property
    def pooled(self) -> dict[str, Any]:
        """The specification of the partition whose images the central partition has, as JSON."""
        return {**self.model_dump(exclude_unset=True, include={"dataset", "classes", "seed"}), **self.images_of}


Partition = Annotated[
    IidPartition
    | DirichletPartition
    | GroupedDirichletPartition
    | PathologicalPartition
    | ShardsPartition
    | DomainPartition
    | CentralPartition,
    Field(discriminator="scheme"),
]

DATASET = Content(DatasetSpecification, DataError)
PARTITION = Content(Partition, DataError)


def check_dataset(content: Mapping[str, Any]) -> DatasetSpecification:
    """Return a dataset specification; DataError for a missing key, an unknown key or a wrong value."""
    where = f"dataset {content['name']!r}" if "name" in content else "the specification of the dataset"
    return _check(DATASET, content, where, "fetch")


def check_partition(content: Mapping[str, Any]) -> PartitionSpecification:
    """Return a partition specification, checked as by :func:`check_dataset`."""
    where = "the specification of the partition"
    spec = _check(PARTITION, content, where, "partition")
    if isinstance(spec, CentralPartition) and spec.images_of is not None:
        where = f"{where}: images_of"
        if inherited := INHERITED & spec.images_of.keys():
            raise DataError(f"{where}: {min(inherited)} is not allowed here: set it for the central partition")
        if (scheme := spec.images_of.get("scheme")) in ("central", "domain"):
            allowed = (name for name in split.SCHEMES if name not in ("central", "domain"))
            raise DataError(unknown("scheme", scheme, [*allowed], where))
        _check(PARTITION, spec.pooled, where, "partition")
    return spec


def _check(kind: Content, content: Mapping[str, Any], where: str, command: str) -> Any:
    try:
        return kind.check(content, where)
    except DataError as error:
        raise DataError(f"{error}. {HELP.format(command=command)}") from None
