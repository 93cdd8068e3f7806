"""From what the files say to what holds: a protocol at a scale, an algorithm in a protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from flatfed import algorithms as registry
from flatfed import schemas
from flatfed.errors import ConfigError, unknown
from flatfed.experiment import known
from flatfed.experiment.defaults import PROTOCOL
from flatfed.papers.quantity import TEST

#: Training keys that an algorithm may have its own value of; the others are what all rows of a table share.
OWN_TRAINING = ("learning_rate", "learning_rate_decay", "weight_decay", "local_epochs", "batch_size", "clip_norm")

#: The largest parameter of an algorithm, learning rates and the like: the schemas' bound for numbers without another.
LARGEST_PARAMETER = 1_000_000

#: Keys of a protocol whose mappings are merged key by key where something overrides them; other values are replaced.
MERGED = {"evaluation", "probe", "analysis", "executor", "unstated"}


@dataclass(frozen=True)
class Protocol:
    """A protocol or labelled variant: ``scales`` holds all its settings at each scale, paper and, if any, preview.

    It is declared in ``file``, ``under`` the start of a key path, "" where the file is the protocol's alone.
    """

    id: str
    file: str
    label: str
    scales: dict[str, dict[str, Any]]
    under: str = ""

    def key(self, scale: str) -> str:
        """Return the start of the key path at which ``scale``'s settings are declared: "", "preview." and so on."""
        variant = self.id.partition("~")[2]
        return self.under + (f"variants.{variant}." if variant else "") + ("preview." if scale == "preview" else "")


def variants(name: str, document: dict[str, Any], file: str, under: str) -> list[Protocol]:
    """Return the protocol ``name``, declared in ``file`` ``under`` the start of a key path, and its labelled variants.

    :raises ConfigError: a variant has a preview, and the protocol none.
    """
    plain = {key: value for key, value in document.items() if key not in ("variants", "preview")}
    plain = {"label": name, "unstated": {}, "algorithms": {}, "targets": {}, "accuracy": TEST, **plain}
    if "paper" not in document:
        plain = overlay(PROTOCOL, plain)
    found = []
    for label, variant in {"": {}, **document.get("variants", {})}.items():
        paper = overlay(plain, {key: value for key, value in variant.items() if key != "preview"})
        scales = {"paper": paper}  # the first one, so that a mistake is reported where it was written
        if "preview" in document:
            scales["preview"] = overlay(overlay(paper, document["preview"]), variant.get("preview", {}))
        elif "preview" in variant:
            raise ConfigError(f"{file}: {under}variants.{label}.preview: means nothing; the protocol has no `preview`")
        found.append(Protocol(f"{name}~{label}" if label else name, file, paper["label"], scales, under))
    return found


def overlay(base: dict[str, Any], over: dict[str, Any], merged: Set[str] = MERGED) -> dict[str, Any]:
    """Return ``base`` with the values of ``over``; the mappings ``merged`` and each algorithm's block are merged."""
    both = base.keys() & over.keys()
    mappings = {key: {**base[key], **over[key]} for key in both & merged}
    if "algorithms" in both:
        mappings["algorithms"] = overlay(base["algorithms"], over["algorithms"], over["algorithms"].keys())
    return {**base, **over, **mappings}


def matching(pattern: str, ids: Iterable[str]) -> list[str]:
    """Return the ``ids`` that ``pattern`` means, in their order; * stands for any text."""
    return [id_ for id_ in ids if fnmatchcase(id_, pattern)]


def matching_any(patterns: Iterable[str], *ids: str) -> bool:
    """Return whether one of ``patterns`` means one of ``ids``; * stands for any text."""
    return any(fnmatchcase(id_, pattern) for pattern in patterns for id_ in ids)


def check_overrides(algorithm: str, overrides: dict[str, Any], where: str) -> None:
    """Refuse what is neither a training key that ``algorithm`` may set nor a parameter of it, or out of bounds."""
    parameters = registry.load(algorithm).parameters()
    for key, value in overrides.items():
        if key in parameters:
            number = parameters[key].check(value, f"{where}.{key}")
            if not isinstance(number, str) and abs(number) > LARGEST_PARAMETER:
                raise ConfigError(f"{where}.{key}: {value} is not allowed; at most {LARGEST_PARAMETER} is wanted")
        elif key in OWN_TRAINING:
            schemas.validate_property(value, "protocol", key, where)
        else:
            raise ConfigError(unknown("key", key, [*parameters, *OWN_TRAINING], where))


def of_algorithm(
    values: dict[str, Any], algorithm: str, entry: dict[str, Any], chosen: Mapping[str, Any] = MappingProxyType({})
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (training settings, parameters) of ``algorithm`` under a protocol's ``values`` at some scale.

    Later ones win: the file's defaults and the protocol; the protocol's block for the algorithm; for a variant, what
    it sets (``entry``) and the protocol's block for the variant; what was ``chosen`` by tuning. All parameters are
    there: a changed default shows.
    """
    base = algorithm.partition("~")[0]
    own = {**values["algorithms"].get(base, {})}
    if algorithm != base:
        own |= entry["set"] | values["algorithms"].get(algorithm, {})
    own |= chosen
    declared = registry.load(base).parameters()
    parameters = {
        name: parameter.check(own.get(name, parameter.default), f"{algorithm}: {name}")
        for name, parameter in declared.items()
    }
    shared = ("rounds", "augmentation", "precision", "checkpoint_every", *OWN_TRAINING)
    return {key: own.get(key, values[key]) for key in shared}, parameters


def target(values: dict[str, Any], split: str, name: str, where: str) -> float:
    """Return the target accuracy ``name`` of ``split`` as a fraction; ConfigError naming ``where`` if there is none."""
    for pattern, goals in values["targets"].items():
        if fnmatchcase(split, pattern):
            return known.look_up("target", name, goals, where)
    there = ", ".join(values["targets"]) or "none"
    raise ConfigError(f"{where}: the protocol has no targets for split {split!r}; it has some for: {there}")
