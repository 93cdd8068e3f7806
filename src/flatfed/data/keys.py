"""Specifications of datasets and partitions, the input of ``flatfed fetch`` and ``flatfed partition``.

The configuration imports this module: it must not import NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from flatfed.config import split
from flatfed.config.datasets import Source
from flatfed.config.document import Content, Document, optional, require, required
from flatfed.config.values import LAST_SEED, Count, Natural, Positive, Shape, Text
from flatfed.errors import DataError

#: Keys that ``images_of`` takes from the partition around it, or that mean nothing in it.
INHERITED = {"dataset", "classes", "seed", "client_test"}

#: Scheme -> the keys that a specification needs.
NEEDED = {
    "iid": ("clients",),
    **dict.fromkeys(("dirichlet", "grouped_dirichlet"), ("clients", "classes", "alpha")),
    "pathological": ("clients", "classes", "classes_per_client"),
    "shards": ("clients", "shards_per_client", "assignment"),
    "domain": ("clients_per_domain", "held_out"),
    "central": (),
}


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


class PartitionSpecification(PartitionSettings):
    """A partition of all schemes: its settings, without unknown keys, and its seed."""

    model_config = ConfigDict(extra="forbid")

    clients: Count = optional("number of clients")
    dataset: Text = required("the name of the dataset")
    seed: Annotated[int, Field(ge=0, le=LAST_SEED)] = required("the seed of the draw")

    @model_validator(mode="after")
    def _has_the_keys_of_its_scheme(self) -> Self:
        require(self, NEEDED[self.scheme])
        return self


DATASET = Content(DatasetSpecification, DataError)
PARTITION = Content(PartitionSpecification, DataError)


def check_dataset(content: Mapping[str, Any]) -> DatasetSpecification:
    """Return a dataset specification; DataError for a missing key, an unknown key or a wrong value."""
    where = f"dataset {content['name']!r}" if "name" in content else "the specification of the dataset"
    return DATASET.check(content, where)


def check_partition(content: Mapping[str, Any]) -> PartitionSpecification:
    """Return a partition specification, checked as by :func:`check_dataset`."""
    return PARTITION.check(content, "the specification of the partition")
