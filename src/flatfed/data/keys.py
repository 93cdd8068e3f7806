"""The keys of dataset and partition specifications.

The configuration imports this module: it must not import NumPy.
"""

from __future__ import annotations

from typing import Any

from flatfed import forms
from flatfed.errors import DataError, unknown
from flatfed.forms import SHAPE, Form, above, named, whole

#: Keys that ``images_of`` takes from the partition around it, or that mean nothing in it.
INHERITED = ("dataset", "classes", "seed", "client_test")

HELP = "`python -m flatfed {command} --help` shows a complete one, `describe --script RUN` that of a run"

TEXT = Form("a text", lambda value: isinstance(value, str) and value != "")
SEED = Form("a whole number below 4294967296", lambda value: type(value) is int and 0 <= value < 1 << 32)

#: Kind of source -> its keys and forms; "?" marks optional keys.
SOURCES: dict[str, dict[str, Any]] = {
    "sklearn": {"test": whole(0), "expand?": named("expansion", ("rotate90", "styles"))},
    "torchvision": {"dataset": TEXT, "draw?": whole(1), "path?": TEXT, "order?": TEXT},
    "npz": {"path": TEXT, "order?": TEXT},
    "imagefolder": {"path": TEXT, "size": whole(1), "domains?": bool | list[str], "obtain?": TEXT, "resize?": whole(1)},
}

#: Scheme -> its keys in addition to :data:`PARTITION`.
PARTITIONS: dict[str, dict[str, Any]] = {
    "central": {"images_of?": dict},
    "iid": {"clients": whole(1), "balanced?": bool},
    "dirichlet": {"clients": whole(1), "classes": whole(1), "alpha": above(0), "replacement?": bool},
    "pathological": dict.fromkeys(("clients", "classes", "classes_per_client"), whole(1)),
    "shards": {
        **dict.fromkeys(("clients", "shards_per_client"), whole(1)),
        "assignment": named("assignment", ("different_classes", "permutation")),
    },
    "domain": {"held_out": whole(0), "clients_per_domain": whole(1)},
}

#: Keys of all datasets and of all partitions.
DATASET = {
    **{"name": TEXT, "classes": whole(1), "shape": SHAPE, "source": {"source": named("source", tuple(SOURCES))}},
    **{"train?": whole(0), "test?": whole(0), "domains?": list[str]},
}
PARTITION = {
    **{"dataset": TEXT, "scheme": named("scheme", tuple(PARTITIONS)), "seed": SEED},
    **dict.fromkeys(("classes?", "clients?", "client_test?"), whole(1)),
    "sampler?": named("sampler", ("keyed", "official")),
}


def check_dataset(spec: dict[str, Any]) -> None:
    """Refuse a dataset specification with a missing key, an unknown key or a wrong value (DataError)."""
    where = f"dataset {spec['name']!r}" if "name" in spec else "the specification of the dataset"
    _check(spec, DATASET, where, "fetch")
    source = spec["source"]
    form = SOURCES[source["source"]]
    _check({key: source[key] for key in source if key != "source"}, form, f"{where}: source", "fetch")
    if problem := misfit(source):
        raise DataError(f"{where}: source.{problem}")


def misfit(source: dict[str, Any]) -> str:
    """Return the contradiction between valid values of a ``source``, or ""."""
    size, shorter = source.get("size"), source.get("resize")
    if size is None or shorter is None or shorter >= size:
        return ""
    return f"resize: {shorter} must be at least size, {size}, which is cut out of it"


def check_partition(spec: dict[str, Any], where: str = "the specification of the partition") -> None:
    """Refuse a partition specification as :func:`check_dataset` does."""
    _check(spec, {**PARTITION, **PARTITIONS.get(str(spec.get("scheme")), {})}, where, "partition")
    if "images_of" in spec:
        for key in spec["images_of"]:
            if key in INHERITED:
                raise DataError(f"{where}: images_of: {key} is not allowed here: set it for the central partition")
        inner = pooled(spec)
        if inner.get("scheme") in ("central", "domain"):
            schemes = [name for name in PARTITIONS if name not in ("central", "domain")]
            raise DataError(unknown("scheme", inner["scheme"], schemes, f"{where}: images_of"))
        check_partition(inner, f"{where}: images_of")


def pooled(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the specification of the partition whose images the central partition ``spec`` pools."""
    return {**{key: spec[key] for key in ("dataset", "classes", "seed") if key in spec}, **spec["images_of"]}


def _check(spec: dict[str, Any], form: dict[str, Any], where: str, command: str) -> None:
    try:
        forms.check(spec, form, where)
    except DataError as error:
        raise DataError(f"{error}. {HELP.format(command=command)}") from None
    names = {key.removesuffix("?") for key in form}
    for key in spec:
        if key not in names:
            raise DataError(unknown("key", key, names, where))
