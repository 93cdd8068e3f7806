"""Default values of configuration entries. With ``paper:``, no defaults apply to a protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flatfed import algorithms as registry
from flatfed.config.algorithm import Algorithm
from flatfed.config.datasets import Dataset
from flatfed.data.counting import COUNTS
from flatfed.errors import ConfigError
from flatfed.experiment import data_sources

#: The default metric of a table of results.
NUMBERS = {"metric": "test_accuracy", "unit": "percent"}

#: Keys of a metric in a column group with a single metric.
ONE_METRIC = ("metric", "unit", "label", "targets", "relative", "base")

#: Mean and standard deviation of every channel, of pixels in 0..1: normalised pixels are in -2..2.
MEAN, DEVIATION = 0.5, 0.25


def dataset(name: str, entry: Dataset, source: Mapping[str, Any], where: str) -> Dataset:
    """Return the complete ``entry`` of dataset ``name``, with missing counts and shape read from ``source``.

    :raises ConfigError: the source does not exist.
    :raises DataError: the images cannot be counted.
    """
    complete: dict[str, Any] = {"label": entry.label or name}
    if absent := [key for key in ("classes", "shape", "train", "test") if getattr(entry, key) is None]:
        keys = ", ".join(absent)
        if source["source"] not in COUNTS:
            raise ConfigError(f"{where}: {keys} cannot be read from source {source['source']}; declare them here")
        try:
            data_sources.check_exists(source, f"{where}.source")
        except ConfigError as error:  # the images may be on another machine
            raise ConfigError(f"{error}; or declare {keys} in {where}") from None
        counts = COUNTS[source["source"]](data_sources.expanded(source), entry.domains, where)
        if counts["classes"] < 2:
            raise ConfigError(f"{where}: {source['path']!r} has {counts['classes']} class; at least two are required")
        complete |= {key: counts[key] for key in absent}
    channels, *_ = entry.shape or complete["shape"]
    complete |= {"mean": entry.mean or [MEAN] * channels, "std": entry.std or [DEVIATION] * channels}
    return entry.model_copy(update=complete)


def algorithm(name: str, entry: Algorithm, plain: Algorithm) -> Algorithm:
    """Return the complete ``entry`` of a row; the default label is the ``plain`` row's, followed by the settings."""
    label = plain.label or registry.load(name.partition("~")[0]).__name__
    overrides = ", ".join(f"{key.replace('_', ' ')} = {value}" for key, value in (entry.set or {}).items())
    return entry.model_copy(update={"label": entry.label or ", ".join(filter(None, (label, overrides)))})


def table(document: dict[str, Any]) -> dict[str, Any]:
    """Return the complete ``document`` of a table."""
    named = any(key in document for key in ("metric", "metrics"))
    everywhere = all(any(key in group for key in ("metric", "metrics")) for group in document["columns"])
    kind = document.get("kind", "results")
    metric = NUMBERS if kind == "results" and not (named or everywhere) else {}
    return {"kind": kind, "reference": "none", **metric, **document}


def figure(document: dict[str, Any]) -> dict[str, Any]:
    """Return the complete ``document`` of a figure."""
    curves = {"metric": "test_accuracy", "smooth": {"preview": 0, "paper": 0}}
    of_kind = {"curves": curves, **{kind: {"metric": "test_accuracy"} for kind in ("sweep", "bars")}}
    return {"paper": "", **of_kind.get(document["kind"], {}), **document}


def metrics(group: dict[str, Any], document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the metrics of a ``group`` of columns, else of the table."""
    for entry in (group, document):
        entries = entry.get("metrics") or [{key: entry[key] for key in ONE_METRIC if key in entry}]
        if any(entries):
            break
    common = {key: document[key] for key in ("metric", "unit") if key in document}
    return [{**common, **metric} for metric in entries]
