"""The keys of a dataset's and of a partition's specification, checked before anything is read, downloaded or dealt.

Standard library only: the configuration is checked by the same lists and imports no NumPy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flatfed import forms
from flatfed.errors import DataError, shown, unknown
from flatfed.forms import SHAPE, Form, above, named, whole

#: Kind of source -> the keys it needs, and those it takes beside them.
SOURCES = {
    "sklearn": (("test",), ("expand",)),
    "torchvision": (("dataset",), ("draw", "order")),
    "npz": (("path",), ("order",)),
    "imagefolder": (("path", "size"), ("domains", "obtain", "resize")),
}

#: Scheme -> the keys that a partition of it needs beside ``dataset``, ``scheme`` and ``seed``, and those it takes, too.
PARTITIONS = {
    "central": ((), ("images_of",)),
    "iid": (("clients",), ("balanced",)),
    "dirichlet": (("clients", "classes", "alpha"), ("replacement",)),
    "pathological": (("clients", "classes", "classes_per_client"), ()),
    "shards": (("clients", "shards_per_client", "assignment"), ()),
    "domain": (("held_out", "clients_per_domain"), ()),
}

#: Keys that every specification needs, and those that one of any kind may have.
DATASET = ("name", "classes", "shape", "source"), ("train", "test", "domains")
PARTITION = ("dataset", "scheme", "seed"), ("classes", "clients", "sampler", "client_test")

#: Keys that the deal in ``images_of`` has from the central partition around it, or that mean nothing there.
OF_THE_WHOLE = ("dataset", "classes", "seed", "client_test")

#: Where the user can see a complete specification.
HELP = "`python -m flatfed {command} --help` shows a whole one, `describe --script RUN` that of a run"

TEXT = Form("a text", lambda value: isinstance(value, str) and value != "")

#: Key -> the form of its values; numbers and names are checked where they are used.
VALUES: dict[str, Any] = {
    **dict.fromkeys(("name", "dataset", "path", "order", "obtain"), TEXT),
    **dict.fromkeys(("train", "test", "held_out"), whole(0)),
    **dict.fromkeys(("classes", "clients", "classes_per_client", "shards_per_client", "clients_per_domain"), whole(1)),
    **dict.fromkeys(("client_test", "size", "resize", "draw"), whole(1)),
    **dict.fromkeys(("balanced", "replacement"), bool),
    "alpha": above(0),
    "images_of": dict,
    "seed": Form("a whole number below 4294967296", lambda value: type(value) is int and 0 <= value < 1 << 32),
    "domains": bool | list[str],
    "shape": SHAPE,
    "sampler": named("sampler", ("keyed", "official")),
    "assignment": named("assignment", ("different_classes", "permutation")),
    "expand": named("expansion", ("rotate90", "styles")),
    "source": {"source": named("source", tuple(SOURCES))},
    "scheme": named("scheme", tuple(PARTITIONS)),
}


def check_dataset(spec: dict[str, Any]) -> None:
    """Refuse the specification of a dataset that lacks a key, has an unknown one or a wrong value; raises DataError."""
    where = f"dataset {spec['name']!r}" if "name" in spec else "the specification of the dataset"
    _check(spec, *DATASET, where, "fetch")
    if isinstance(spec.get("domains"), bool):
        raise DataError(f"{where}: domains: {shown(spec['domains'])} is not a list")
    source = spec["source"]
    needed, optional = SOURCES[source["source"]]
    _check({key: source[key] for key in source if key != "source"}, needed, optional, f"{where}: source", "fetch")
    if told := misfit(source):
        raise DataError(f"{where}: source.{told}")


def misfit(source: dict[str, Any]) -> str:
    """Return what is wrong with a ``source`` whose values fit by themselves, but not each other; "" if nothing is."""
    size, shorter = source.get("size"), source.get("resize")
    if size is None or shorter is None or shorter >= size:
        return ""
    return f"resize: {shorter} must be at least size, {size}, which is cut out of it"


def check_partition(spec: dict[str, Any], where: str = "the specification of the partition") -> None:
    """Refuse the specification of a partition as :func:`check_dataset` does that of a dataset."""
    needed, optional = PARTITIONS.get(str(spec.get("scheme")), ((), ()))
    _check(spec, (*PARTITION[0], *needed), (*PARTITION[1], *optional), where, "partition")
    if "images_of" in spec:
        for key in spec["images_of"]:
            if key in OF_THE_WHOLE:
                raise DataError(f"{where}: images_of: {key} is not allowed there: it is that of the whole")
        inner = pooled(spec)
        if inner.get("scheme") in ("central", "domain"):
            several = [name for name in PARTITIONS if name not in ("central", "domain")]
            raise DataError(unknown("scheme", inner["scheme"], several, f"{where}: images_of"))
        check_partition(inner, f"{where}: images_of")


def pooled(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the specification of the partition whose images a central partition pools: ``images_of`` in ``spec``.

    Data set, classes and seed are those of ``spec``, so that the pooled images are those of the clients' own runs.
    """
    return {**{key: spec[key] for key in ("dataset", "classes", "seed") if key in spec}, **spec["images_of"]}


def _check(spec: dict[str, Any], needed: Iterable[str], optional: Iterable[str], where: str, command: str) -> None:
    """Refuse ``spec`` if it lacks a ``needed`` key, has a value of another form, or an unknown key."""
    form = {**{f"{key}?": VALUES[key] for key in optional}, **{key: VALUES[key] for key in needed}}
    try:
        forms.check(spec, form, where)
    except DataError as error:
        raise DataError(f"{error}. {HELP.format(command=command)}") from None
    for key in spec:
        if not {key, f"{key}?"} & form.keys():
            raise DataError(unknown("key", key, (*needed, *optional), where))
