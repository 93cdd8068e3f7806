"""Keys that an entry needs for what it is of, beyond those that every entry needs: all that are missing, at once.

Entries are as their schemas have them but for keys that are missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flatfed.data.counting import COUNTS
from flatfed.data.keys import SOURCES
from flatfed.experiment import defaults
from flatfed.papers.metrics import METRICS
from flatfed.schemas import Missing, meaning

#: Partition scheme -> the keys of a split that it needs, and those it takes beside them.
SCHEMES = {
    "iid": (("clients",), ("balanced",)),
    "dirichlet": (("clients", "alpha"), ("replacement",)),
    "pathological": (("clients", "classes_per_client"), ()),
    "shards": (("clients", "shards_per_client"), ("assignment",)),
    "domain": (("domain", "clients_per_domain"), ()),
    "central": (("clients",), ("steps_of", "images_of")),
}

#: What a dataset has to say of itself, unless its images are on disk to be counted.
DECLARED = ("classes", "shape", "train", "test", "mean", "std")

#: Kind of table -> the keys that a group of its columns, and a row, cannot do without.
TABLES = {
    "results": (("protocol",), ()),
    "datasets": ((), ("protocol",)),
    "search": (("protocol", "algorithm", "id", "reference"), ("key", "metric")),
}


def datasets(entries: dict[str, Any], under: tuple[str, ...]) -> Iterator[Missing]:
    """Yield what the datasets ``entries``, which stand ``under`` these keys of their file, lack for their sources."""
    for name, entry in entries.items():
        yield from source(entry.get("source", {}), (*under, name, "source"))
        kind = entry.get("source", {}).get("source")
        for key in DECLARED if kind in SOURCES and kind not in COUNTS else ():
            if key not in entry:
                yield Missing((*under, name), key, meaning("datasets", "*", key))


def source(entry: dict[str, Any], under: tuple[str, ...] = ()) -> Iterator[Missing]:
    """Yield what the source of a dataset lacks for its kind."""
    kind = entry.get("source")
    for key in SOURCES[kind][0] if kind in SOURCES else ():
        if key not in entry:
            yield Missing(under, key, meaning("source", key))


def splits(entries: dict[str, Any], under: tuple[str, ...]) -> Iterator[Missing]:
    """Yield what the splits ``entries`` lack for their schemes."""
    for name, entry in entries.items():
        for key in SCHEMES[entry["scheme"]][0] if "scheme" in entry else ():
            if key not in entry:
                yield Missing((*under, name), key, meaning("splits", "*", key))


def algorithms(entries: dict[str, Any], under: tuple[str, ...]) -> Iterator[Missing]:
    """Yield the variants among ``entries`` that do not say what they set."""
    for name, entry in entries.items():
        if "~" in name and not entry.get("set"):
            yield Missing((*under, name), "set", meaning("algorithms", "*", "set"))


def section(name: str, entries: dict[str, Any], under: tuple[str, ...] = ()) -> Iterator[Missing]:
    """Yield what the ``entries`` of a section lack, which stand ``under`` these keys of their file."""
    of = {"datasets": datasets, "splits": splits, "algorithms": algorithms}.get(name)
    yield from of(entries, under) if of else ()


def table(document: dict[str, Any]) -> Iterator[Missing]:
    """Yield what rows and groups of columns of a table lack for its kind, and a paper's table without a reference."""
    of_group, of_row = TABLES[document.get("kind", "results")]
    if "paper" in document and document.get("reference") == "none" and "reason" not in document:
        yield Missing((), "reason", meaning("table", "reason"))
    if document.get("reference", "none") != "none" and "paper" not in document:
        yield Missing((), "paper", meaning("table", "paper"))
    for place, row in enumerate(document.get("rows", [])):
        for key in of_row:
            if isinstance(row, str) or key not in row:
                yield Missing(("rows", place), key, meaning("table", "rows", "[]", key))
    for place, group in enumerate(document.get("columns", [])):
        for key in of_group:
            if key not in group:
                yield Missing(("columns", place), key, meaning("table", "columns", "[]", key))
        if of_group == ("protocol",) and "splits" not in group and (name := _of_runs(document, group)):
            said = f"{meaning('table', 'columns', '[]', 'splits')}; metric {name!r} is of runs, so on splits"
            yield Missing(("columns", place), "splits", said)


def _of_runs(document: dict[str, Any], group: dict[str, Any]) -> str | None:
    """Return the first metric under a group of columns that is not declared but measured, None where there is none."""
    names = [one["metric"] for one in defaults.metrics(group, {**defaults.NUMBERS["results"], **document})]
    return next((name for name in names if name in METRICS and METRICS[name].source != "declared"), None)
