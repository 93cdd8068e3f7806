"""Declarations of hyper-parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flatfed.errors import ConfigError, unknown


@dataclass(frozen=True)
class Number:
    """A finite real hyper-parameter: ``rho = Number(0.01, "radius of the perturbation", minimum=0)``."""

    default: float
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: float | None = None
    exclusive_maximum: float | None = None

    def check(self, value: Any, where: str) -> float:
        """Return ``value`` as a float; ConfigError outside the bounds."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ConfigError(f"{where}: {value!r} is not a finite number")
        tests = (
            ("at least", self.minimum, lambda bound: value >= bound),
            ("at most", self.maximum, lambda bound: value <= bound),
            ("greater than", self.exclusive_minimum, lambda bound: value > bound),
            ("less than", self.exclusive_maximum, lambda bound: value < bound),
        )
        for words, bound, holds in tests:
            if bound is not None and not holds(bound):
                raise ConfigError(f"{where}: {value} must be {words} {bound}")
        return float(value)


@dataclass(frozen=True)
class Whole:
    """An integer hyper-parameter: ``gossip_steps = Whole(4, "Q: mixing steps after a round", minimum=1)``."""

    default: int
    doc: str
    minimum: int
    maximum: int | None = None

    def check(self, value: Any, where: str) -> int:
        """Return ``value``; ConfigError if it is no integer within the bounds."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(f"{where}: {value!r} is not a whole number")
        if value < self.minimum:
            raise ConfigError(f"{where}: {value} must be at least {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            raise ConfigError(f"{where}: {value} must be at most {self.maximum}")
        return value


@dataclass(frozen=True)
class Choice:
    """A hyper-parameter with few values: ``s = Choice("official_code", ("official_code", "paper"), "...", "...")``.

    ``reason``: why this default; printed in tables if paper and code differ. Options of other public code are named by
    repository and commit: "FL-SAM@2c16149".
    """

    default: str | int
    options: tuple[str, ...] | tuple[int, ...]
    doc: str
    reason: str = ""

    def __post_init__(self):
        if isinstance(self.options, str) or self.default not in self.options:
            example = 'Choice("asam", ("asam", "sam"), "scaling of the perturbation")'
            raise ConfigError(f"Choice: {self.options!r} are not options with the default {self.default!r}; {example}")

    @property
    def concerns_paper(self) -> bool:
        """Whether the options contain a paper or its official code."""
        return not {"paper", "official_code"}.isdisjoint(self.options)

    @property
    def public_code(self) -> tuple[str, ...]:
        """The options of public code, named by repository and commit."""
        return tuple(option for option in self.options if "@" in str(option))

    def check(self, value: Any, where: str) -> str | int:
        """Return the matching option; ConfigError if there is none."""
        if isinstance(value, bool) or value not in self.options:
            raise ConfigError(unknown("value", value, self.options, where))
        return self.options[self.options.index(value)]


def check_values(
    declared: Mapping[str, Number | Whole | Choice], values: Mapping[str, Any], kind: str, where: str
) -> dict[str, Any]:
    """Return each ``declared`` name's value or default; ConfigError for an undeclared name or invalid value."""
    for name in values:
        if name not in declared:
            raise ConfigError(unknown(kind, name, declared, where))
    return {
        name: parameter.check(values.get(name, parameter.default), f"{where}: {name}")
        for name, parameter in declared.items()
    }
