"""Specifications of datasets and partitions, the input of ``flatfed fetch`` and ``flatfed partition``.

The configuration imports this module: it must not import NumPy.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from flatfed.config.datasets import Source
from flatfed.config.document import Content, Document, OfKind, optional, required
from flatfed.config.values import LAST_SEED, Count, Natural, Positive, Shape, Text
from flatfed.errors import DataError, unknown

#: Keys that ``images_of`` takes from the partition around it, or that mean nothing in it.
INHERITED = ("dataset", "classes", "seed", "client_test")

HELP = "`python -m flatfed {command} --help` shows a complete one, `describe --script RUN` that of a run"


class DatasetSpecification(Document):
    name: Text = required("the dataset's name")
    classes: Count = required("number of classes")
    shape: Shape = required("[channels, height, width] of an image")
    train: Natural = optional("number of training images")
    test: Natural = optional("number of test images")
    domains: list[str] = optional("names of its domains")
    source: Source = required("where the images come from")


class PartitionSpecification(OfKind):
    selects: ClassVar = "scheme"
    only: ClassVar = {
        "images_of": ("central",),
        "balanced": ("iid",),
        **dict.fromkeys(("alpha", "replacement"), ("dirichlet",)),
        "classes_per_client": ("pathological",),
        **dict.fromkeys(("shards_per_client", "assignment"), ("shards",)),
        **dict.fromkeys(("held_out", "clients_per_domain"), ("domain",)),
    }
    needed: ClassVar = {
        "iid": ("clients",),
        "dirichlet": ("clients", "classes", "alpha"),
        "pathological": ("clients", "classes", "classes_per_client"),
        "shards": ("clients", "shards_per_client", "assignment"),
        "domain": ("held_out", "clients_per_domain"),
    }

    dataset: Text = required("the name of the dataset")
    scheme: Literal["central", "iid", "dirichlet", "pathological", "shards", "domain"] = required(
        "how images are partitioned among clients"
    )
    seed: Annotated[int, Field(ge=0, le=LAST_SEED)] = required("the seed of the draw")
    classes: Count = optional("number of classes of the dataset")
    clients: Count = optional("number of clients")
    client_test: Count = optional("number of test images of each client")
    sampler: Literal["keyed", "official"] = optional("the random generator")
    images_of: dict[str, Any] = optional("the partition whose images one client has")
    balanced: bool = optional("whether every client has the same number of images of every class")
    alpha: Positive = optional("concentration of each client's label distribution")
    replacement: bool = optional("whether an exhausted class restarts")
    classes_per_client: Count = optional("number of classes of a client")
    shards_per_client: Count = optional("number of shards of a client")
    assignment: Literal["different_classes", "permutation"] = optional("which shards a client may have")
    held_out: Natural = optional("index of the domain held out for testing")
    clients_per_domain: Count = optional("number of clients per training domain")


DATASET = Content(DatasetSpecification, DataError)
PARTITION = Content(PartitionSpecification, DataError)


def check_dataset(spec: dict[str, Any]) -> None:
    """Refuse a dataset specification with a missing key, an unknown key or a wrong value (DataError)."""
    where = f"dataset {spec['name']!r}" if "name" in spec else "the specification of the dataset"
    _check(DATASET, spec, where, "fetch")
    if problem := misfit(spec["source"]):
        raise DataError(f"{where}: source.{problem}")


def misfit(source: dict[str, Any]) -> str:
    """Return the contradiction between valid values of a ``source``, or ""."""
    size, shorter = source.get("size"), source.get("resize")
    if size is None or shorter is None or shorter >= size:
        return ""
    return f"resize: {shorter} must be at least size, {size}, which is cut out of it"


def check_partition(spec: dict[str, Any], where: str = "the specification of the partition") -> None:
    """Refuse a partition specification as :func:`check_dataset` does."""
    _check(PARTITION, spec, where, "partition")
    if "images_of" in spec:
        for key in spec["images_of"]:
            if key in INHERITED:
                raise DataError(f"{where}: images_of: {key} is not allowed here: set it for the central partition")
        inner = pooled(spec)
        if inner.get("scheme") in ("central", "domain"):
            schemes = ("iid", "dirichlet", "pathological", "shards")
            raise DataError(unknown("scheme", inner["scheme"], schemes, f"{where}: images_of"))
        check_partition(inner, f"{where}: images_of")


def pooled(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the specification of the partition whose images the central partition ``spec`` pools."""
    return {**{key: spec[key] for key in ("dataset", "classes", "seed") if key in spec}, **spec["images_of"]}


def _check(content: Content, spec: dict[str, Any], where: str, command: str) -> None:
    try:
        content.check(spec, where)
    except DataError as error:
        raise DataError(f"{error}. {HELP.format(command=command)}") from None
