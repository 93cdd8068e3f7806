"""The effective settings of protocols, and of algorithms in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from flatfed import algorithms as registry
from flatfed.config.algorithm import AlgorithmDocument
from flatfed.config.protocol import (
    ABSENT,
    CHANGES,
    DEFAULTS,
    IN_PLACE_OF,
    SCHEDULE,
    LearningRateSchedule,
    Protocol,
    Settings,
    Steps,
)
from flatfed.config.values import LARGEST
from flatfed.errors import ConfigError, unknown
from flatfed.plan import lookup
from flatfed.runs.paths import without_label

#: Training keys that an algorithm may override.
OWN_TRAINING = (
    *("learning_rate", "learning_rate_decay", "weight_decay", "local_epochs", "batch_size", "clip_norm"),
    *ABSENT,
)

#: Keys of a protocol whose mappings are merged; an override replaces other values.
MERGED = {"evaluation", "probe", "analysis", "executor", "unstated"}


@dataclass(frozen=True)
class ResolvedProtocol:
    """A protocol or labelled variant: scale -> settings, declared in ``file`` under the key path ``under``."""

    id: str
    file: str
    scales: dict[str, Settings]
    under: str = ""

    @property
    def at_paper_scale(self) -> Settings:
        """The settings at paper scale, which every protocol has."""
        return self.scales["paper"]

    def key(self, scale: str) -> str:
        """Return the key path of ``scale``'s settings: "", "preview." and so on."""
        variant = self.id.partition("~")[2]
        return self.under + (f"variants.{variant}." if variant else "") + ("preview." if scale == "preview" else "")


def variants(name: str, document: Protocol, file: str, under: str) -> list[ResolvedProtocol]:
    """Return the protocol ``name`` and its labelled variants; ConfigError for a preview of variants alone."""
    content = document.as_written()
    preview, changes, paper = (content.pop(key, None) for key in ("preview", "variants", "paper"))
    plain = {"label": name, **(content if paper else overlay(DEFAULTS, content))}
    protocols = []
    for label, variant in {"": {}, **(changes or {})}.items():
        of_preview = variant.pop("preview", None)
        scales = {"paper": overlay(plain, variant)}  # first, so that messages locate a mistake there
        if preview:
            scales["preview"] = overlay(overlay(scales["paper"], preview), of_preview or {})
        elif of_preview is not None:
            raise ConfigError(f"{file}: {under}variants.{label}.preview: has no effect; the protocol has no `preview`")
        resolved = {scale: Settings.model_validate(values) for scale, values in scales.items()}
        protocols.append(ResolvedProtocol(f"{name}~{label}" if label else name, file, resolved, under))
    return protocols


def overlay(base: dict[str, Any], over: dict[str, Any], merged: Set[str] = MERGED) -> dict[str, Any]:
    """Return ``base`` with the values of ``over``; merge the mappings ``merged`` and each algorithm's block.

    A key that takes the place of another one in ``base`` is absent if ``over`` has that one.
    """
    ended = {key for key, other in IN_PLACE_OF.items() if other in over}
    base = {key: value for key, value in base.items() if key not in ended}
    shared = base.keys() & over.keys()
    mappings = {key: overlay(base[key], over[key], frozenset()) for key in shared & merged}
    if "algorithms" in shared:
        mappings["algorithms"] = overlay(base["algorithms"], over["algorithms"], over["algorithms"].keys())
    return {**base, **over, **mappings}


def matching_any(patterns: Iterable[str], *ids: str) -> bool:
    """Return whether one of ``patterns`` matches one of ``ids``."""
    return any(fnmatchcase(id_, pattern) for pattern in patterns for id_ in ids)


def complete_algorithm(name: str, entry: AlgorithmDocument, plain: AlgorithmDocument) -> AlgorithmDocument:
    """Return the complete ``entry`` of a row; the default label is the ``plain`` row's, followed by the settings."""
    label = plain.label or registry.load(without_label(name)).__name__
    values = {key: value["kind"] if isinstance(value, dict) else value for key, value in (entry.set or {}).items()}
    overrides = ", ".join(f"{key.replace('_', ' ')} = {value}" for key, value in values.items())
    return entry.model_copy(update={"label": entry.label or ", ".join(filter(None, (label, overrides)))})


def check_overrides(algorithm: str, overrides: dict[str, Any], where: str) -> None:
    """Refuse keys that ``algorithm`` cannot set, and values out of bounds."""
    parameters = registry.load(algorithm).parameters()
    for key, value in overrides.items():
        if key in parameters:
            number = parameters[key].check(value, f"{where}.{key}")
            if not isinstance(number, str) and abs(number) > LARGEST:
                raise ConfigError(f"{where}.{key}: {value} is not allowed; expected at most {LARGEST}")
        elif key in OWN_TRAINING:
            CHANGES.check({key: value}, where)
        else:
            raise ConfigError(unknown("key", key, [*parameters, *OWN_TRAINING], where))


def check_milestones(schedule: LearningRateSchedule | None, rounds: int, where: str) -> None:
    """Refuse a ``schedule`` with a step after the last of the ``rounds``."""
    if isinstance(schedule, Steps) and (last := max(schedule.milestones)) >= rounds:
        raise ConfigError(f"{where}.milestones: {last} is not allowed; at most {rounds - 1} of the {rounds} rounds")


def of_algorithm(
    settings: Settings, algorithm: str, entry: AlgorithmDocument
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (training settings, hyper-parameters) of ``algorithm`` under a protocol's ``settings``.

    Later sources override earlier ones: the protocol; its block for the algorithm; for a variant, its ``entry`` and the
    protocol's block for it.
    """
    base = without_label(algorithm)
    overrides = {**settings.algorithms.get(base, {})}
    if algorithm != base:
        overrides = overlay(overlay(overrides, entry.set), settings.algorithms.get(algorithm, {}))
    declared = registry.load(base).parameters()
    parameters = {
        name: parameter.check(overrides.get(name, parameter.default), f"{algorithm}: {name}")
        for name, parameter in declared.items()
    }
    shared = ("rounds", "augmentation", "precision", *OWN_TRAINING)
    changed = {key: value for key, value in overrides.items() if key in shared and key not in declared}
    training = overlay({key: getattr(settings, key) for key in shared}, changed)
    if schedule := training.get("learning_rate_schedule"):
        schedule = SCHEDULE.check(schedule, f"{algorithm}: learning_rate_schedule")
        training["learning_rate_schedule"] = None if schedule.kind == "exponential" else schedule
    replaced = {other for key, other in IN_PLACE_OF.items() if training.get(key)}
    no_effect = {key for key, value in training.items() if key in ABSENT and value in (None, ABSENT[key])}
    training = {key: value for key, value in training.items() if key not in {*no_effect, *replaced}}
    return training, parameters


def targets(settings: Settings, split: str) -> Mapping[str, float]:
    """Return the target accuracies of ``split`` by name, as fractions."""
    return next((goals for pattern, goals in settings.targets.items() if fnmatchcase(split, pattern)), {})


def target(settings: Settings, split: str, name: str, where: str) -> float:
    """Return the target accuracy ``name`` of ``split`` as a fraction; ConfigError without one."""
    if goals := targets(settings, split):
        return lookup.entry("target", name, goals, where)
    patterns = ", ".join(settings.targets) or "none"
    raise ConfigError(f"{where}: the protocol has no targets for split {split!r}; it has some for: {patterns}")
