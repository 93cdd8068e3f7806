"""Hyper-parameters of an algorithm, declared once with default, bounds and meaning."""

from __future__ import annotations

import math
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
        """Return ``value`` as a float inside the bounds; ConfigError otherwise."""
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
    """A whole-number hyper-parameter: ``gossip_steps = Whole(4, "Q: mixing steps after a round", minimum=1)``."""

    default: int
    doc: str
    minimum: int

    def check(self, value: Any, where: str) -> int:
        """Return ``value`` if it is a whole number within the bound; ConfigError otherwise."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(f"{where}: {value!r} is not a whole number")
        if value < self.minimum:
            raise ConfigError(f"{where}: {value} must be at least {self.minimum}")
        return value


@dataclass(frozen=True)
class Choice:
    """A hyper-parameter with few values: ``s = Choice("official_code", ("official_code", "paper"), "...", "...")``.

    ``reason``: why the default is what it is; tables print it where a paper and its official code part.
    """

    default: str | int
    options: tuple[str, ...] | tuple[int, ...]
    doc: str
    reason: str = ""

    @property
    def parts(self) -> bool:
        """Whether the choice is between a paper and its official code."""
        return {"paper", "official_code"} <= set(self.options)

    def check(self, value: Any, where: str) -> str | int:
        """Return the option that ``value`` is; ConfigError if it is none."""
        if isinstance(value, bool) or value not in self.options:
            raise ConfigError(unknown("value", value, self.options, where))
        return self.options[self.options.index(value)]
