"""Hyper-parameters of an algorithm, declared once with default, bounds and meaning."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flatfed.errors import ConfigError, unknown
from flatfed.retired import replacement


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

    ``reason``: why the default is what it is; tables print it where there is a choice against a paper or its code.
    An option that is what some other public code does is called by its repository and commit: "FL-SAM@2c16149".
    ``by_place``: options with which rows are treated coordinate by coordinate, whatever the algorithm says of itself.
    """

    default: str | int
    options: tuple[str, ...] | tuple[int, ...]
    doc: str
    reason: str = ""
    by_place: tuple[str, ...] = ()

    @property
    def parts(self) -> bool:
        """Whether the choice is for or against a paper, or its official code."""
        return not {"paper", "official_code"}.isdisjoint(self.options)

    @property
    def shipped(self) -> tuple[str, ...]:
        """The options that are what some public code does, each named by its repository and commit."""
        return tuple(option for option in self.options if "@" in str(option))

    def check(self, value: Any, where: str) -> str | int:
        """Return the option that ``value`` is; ConfigError if it is none."""
        if isinstance(value, bool) or value not in self.options:
            retired = replacement("value", f"{where.rpartition(': ')[2]}: {value}")
            raise ConfigError(f"{where}: {retired}" if retired else unknown("value", value, self.options, where))
        return self.options[self.options.index(value)]


def checked(
    declared: Mapping[str, Number | Whole | Choice], values: Mapping[str, Any], kind: str, where: str
) -> dict[str, Any]:
    """Return a value for each name ``declared``, the default if ``values`` have none; a name is that of a ``kind``.

    :raises ConfigError: a name is not declared, or a value impossible.
    """
    for name in values:
        if name not in declared:
            raise ConfigError(unknown(kind, name, declared, where))
    return {name: each.check(values.get(name, each.default), f"{where}: {name}") for name, each in declared.items()}
