"""What an entry need not say: filled in here, once, so that all others read whole entries.

A protocol that names a paper leaves nothing to defaults, nor does a dataset that is not on disk to be counted
(the schemas).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flatfed import algorithms as registry
from flatfed import schemas
from flatfed.data.counting import COUNTS
from flatfed.errors import ConfigError
from flatfed.experiment import data_sources

#: A protocol of one's own: FedSMOO's set-up (5.1 and official code) but for its augmentation, since cropped or flipped
#: images are not of the same class in every data set.
PROTOCOL = schemas.defaults("protocol")

#: A split: keys that its scheme does not have mean nothing there.
SPLIT: dict[str, Any] = {
    **{"balanced": False, "replacement": True, "assignment": "different_classes"},
    **{"sampling": "bernoulli", "sampler": "keyed"},
}

#: The numbers of a table of results where neither it nor a group of its columns names a metric.
NUMBERS = {"metric": "test_accuracy", "unit": "percent"}

#: Keys of a metric in a group of columns that has one alone.
ONE_METRIC = ("metric", "unit", "label", "targets", "relative", "base")

#: Mean and standard deviation of every channel, of pixels scaled to 0..1: what is between black and white is -2..2.
MEAN, DEVIATION = 0.5, 0.25

#: Scheme -> what a split of it is called; braces hold its keys.
LABELS = {
    "iid": "IID",
    "dirichlet": "Dirichlet {alpha:g}",
    "pathological": "{classes_per_client} classes a client",
    "shards": "{shards_per_client} shards a client",
    "domain": "{domain}",
    "central": "Centralised",
}


def dataset(name: str, entry: dict[str, Any], source: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the ``entry`` of dataset ``name``, declared in ``where``, whole: what it leaves out is read of ``source``.

    ``source`` is the one that this machine reads. Nothing is read where numbers of images, classes and shape are given.

    :raises ConfigError: it is not there.
    :raises DataError: it cannot be counted.
    """
    whole = {"label": name, **entry}
    if absent := [key for key in ("classes", "shape", "train", "test") if key not in entry]:
        keys = ", ".join(absent)
        if source["source"] not in COUNTS:
            raise ConfigError(f"{where}: {keys} cannot be read of source {source['source']}; say them here")
        try:
            data_sources.check_there(source, f"{where}.source")
        except ConfigError as error:  # the images may be on another machine
            raise ConfigError(f"{error}; or say {keys} in {where}") from None
        found = COUNTS[source["source"]](data_sources.at_home(source), entry.get("domains"), where)
        if found["classes"] < 2:
            raise ConfigError(f"{where}: {source['path']!r} holds {found['classes']} class; at least two are wanted")
        whole |= {key: found[key] for key in absent}
    channels = whole["shape"][0]
    return {"mean": [MEAN] * channels, "std": [DEVIATION] * channels, **whole}


def split(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the ``entry`` of a split, whole, with a label that says what it is where it has none."""
    return {"label": [LABELS[entry["scheme"]].format(**entry)], **SPLIT, **entry}


def algorithm(name: str, entry: dict[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``entry`` of a row with a label where it has none: that of its ``plain`` row, and what it sets."""
    label = plain.get("label", registry.load(name.partition("~")[0]).__name__)
    own = ", ".join(f"{key.replace('_', ' ')} = {value}" for key, value in entry.get("set", {}).items())
    return {"label": ", ".join(filter(None, (label, own))), **entry}


def table(document: dict[str, Any]) -> dict[str, Any]:
    """Return a table's ``document`` with what its numbers are, and that nothing is printed, where it does not say."""
    named = any(key in document for key in ("metric", "metrics"))
    everywhere = all(any(key in group for key in ("metric", "metrics")) for group in document["columns"])
    kind = document.get("kind", "results")
    of = NUMBERS if kind == "results" and not (named or everywhere) else {}
    return {"kind": kind, "reference": "none", **of, **document}


def figure(document: dict[str, Any]) -> dict[str, Any]:
    """Return a figure's ``document`` with no paper, the test accuracy and no smoothing where it does not say."""
    curves = {"metric": "test_accuracy", "smooth": {"preview": 0, "paper": 0}}
    of_kind = {"curves": curves, **{kind: {"metric": "test_accuracy"} for kind in ("sweep", "bars")}}
    return {"paper": "", **of_kind.get(document["kind"], {}), **document}


def metrics(group: dict[str, Any], document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what stands under each split of a ``group`` of columns: its own metrics or, without any, the table's."""
    for entry in (group, document):
        found = entry.get("metrics") or [{key: entry[key] for key in ONE_METRIC if key in entry}]
        if any(found):
            break
    common = {key: document[key] for key in ("metric", "unit") if key in document}
    return [{**common, **one} for one in found]
