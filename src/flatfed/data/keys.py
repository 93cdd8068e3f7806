"""The keys of a dataset's and of a partition's specification, checked before anything is read, downloaded or dealt.

Standard library only: the configuration is checked by the same lists and imports no NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flatfed.errors import DataError, unknown

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
DATASET, OF_ANY_DATASET = ("name", "classes", "shape", "source"), ("train", "test", "domains")
PARTITION, OF_ANY_PARTITION = ("dataset", "scheme", "seed"), ("classes", "clients", "sampler", "client_test")

#: Keys that the deal in ``images_of`` has from the central partition around it, or that mean nothing there.
OF_THE_WHOLE = ("dataset", "classes", "seed", "client_test")

Test = Callable[[Any], bool]


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


#: Key -> words for its values, and a test of their type; numbers and names are checked where they are used.
VALUES: dict[str, tuple[str, Test]] = {
    **dict.fromkeys(
        ("name", "scheme", "sampler", "assignment", "path", "order", "obtain", "expand"), ("a text", _text)
    ),
    **dict.fromkeys(("classes", "train", "test", "clients", "size", "resize", "draw"), ("a whole number", _whole)),
    **dict.fromkeys(("classes_per_client", "shards_per_client"), ("a whole number", _whole)),
    **dict.fromkeys(("held_out", "clients_per_domain", "client_test"), ("a whole number", _whole)),
    **dict.fromkeys(("balanced", "replacement"), ("true or false", _flag)),
    "alpha": ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    "images_of": ("a mapping, the deal of several clients", lambda value: isinstance(value, dict)),
    "seed": ("a whole number below 4294967296", lambda value: _whole(value) and value < 1 << 32),
    "dataset": ("the name of a dataset", _text),
    "domains": ("a list of names", lambda value: _flag(value) or (isinstance(value, list) and all(map(_text, value)))),
    "shape": (
        "[channels, height, width]",
        lambda value: isinstance(value, list) and len(value) == 3 and all(_whole(side) and side for side in value),
    ),
}

#: Where the user can see a complete specification.
HELP = "`python -m flatfed {command} --help` shows a whole one, `describe --script RUN` that of a run"


def check_dataset(spec: dict[str, Any]) -> None:
    """Refuse the specification of a dataset that lacks a key, has an unknown one or a wrong value; raises DataError."""
    where = f"dataset {spec['name']!r}" if _text(spec.get("name")) else "the specification of the dataset"
    _check(spec, DATASET, (*DATASET, *OF_ANY_DATASET), where, "it", "fetch")
    source = spec["source"]
    if _flag(spec.get("domains")):
        raise DataError(f"{where}: domains: {spec['domains']} is not allowed; a list of names is wanted")
    if not isinstance(source, dict):
        raise DataError(f'{where}: source: {source!r} is not a mapping, such as {{"source": "npz", "path": FILE}}')
    _check(source, ("source",), None, f"{where}: source", "it", "fetch")
    kind = source["source"]
    if not _text(kind) or kind not in SOURCES:
        raise DataError(unknown("source", kind, SOURCES, f"{where}: source"))
    needed, optional = SOURCES[kind]
    _check(source, needed, ("source", *needed, *optional), f"{where}: source", f"a source {kind}", "fetch")
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
    _check(spec, PARTITION, None, where, "it", "partition")
    scheme = spec["scheme"]
    if scheme not in PARTITIONS:
        raise DataError(unknown("scheme", scheme, PARTITIONS, "partition"))
    needed, optional = PARTITIONS[scheme]
    known = (*PARTITION, *OF_ANY_PARTITION, *needed, *optional)
    _check(spec, needed, known, where, f"scheme {scheme}", "partition")
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


def _check(
    spec: dict[str, Any], needed: tuple[str, ...], known: tuple[str, ...] | None, where: str, kind: str, command: str
) -> None:
    """Refuse ``spec`` if it lacks a key of ``needed``, has one that is not ``known``, or a value of another type."""
    missing = [key for key in needed if key not in spec]
    if missing:
        lacks = f"keys {', '.join(map(repr, missing))} are" if len(missing) > 1 else f"key {missing[0]!r} is"
        raise DataError(f"{where}: {lacks} missing; {kind} needs {', '.join(needed)}. {HELP.format(command=command)}")
    for key in spec if known is not None else ():
        if key not in known:
            raise DataError(unknown("key", key, known, where))
    for key, value in spec.items():
        wanted, fits = VALUES.get(key, ("", lambda _: True))
        if not fits(value):
            raise DataError(f"{where}: {key}: {value!r} is not allowed; {wanted} is wanted")
