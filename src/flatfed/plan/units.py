"""Units, comparisons and the formatting of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """A printed unit; ``factor`` converts from the stored unit.

    ``decimals``: None for those of the paper's number, else four significant figures. ``words`` follow the name of a
    quantity, as in "Test accuracy in percent".
    """

    stored: str
    factor: float
    decimals: int | None
    words: str


#: Printed units by their names in config/reference, where ``number`` is empty.
UNITS = {
    "percent": Unit("fraction", 100.0, 2, " in percent"),
    "pp": Unit("fraction", 100.0, 2, " in percentage points"),
    "rounds": Unit("rounds", 1.0, 1, ", counted from round 1"),
    "count": Unit("count", 1.0, 0, ""),
    "number": Unit("number", 1.0, None, ""),
    "squared_l2": Unit("squared_l2", 1.0, 3, " as a squared Euclidean norm"),
    "nats": Unit("nats", 1.0, None, " in nats"),
    "s": Unit("seconds", 1.0, 2, " in seconds"),
    "minutes": Unit("seconds", 1 / 60, 1, " in minutes"),
    "GB": Unit("bytes", 1e-9, 2, " in gigabytes"),
    "GB_params": Unit("parameters", 1e-9, 1, " in billions of parameters"),
    "x": Unit("ratio", 1.0, 2, " as a ratio"),
    "V": Unit("ratio", 1.0, 2, " in units of the base row's total"),
}

#: Units of integers, unless they are means.
WHOLE = ("rounds", "count")

#: Units of amounts that the papers' decimals could print as zero.
AMOUNTS = ("s", "minutes", "GB", "GB_params")


@dataclass(frozen=True)
class Comparison:
    """A comparison of a row with its base row: ``function`` of both numbers of a seed.

    ``variant``: in config/reference. ``unit``: the stored unit, None for the metric's. ``reverses``: whether small
    numbers become large ones.
    """

    function: Callable[[float, float], float]
    variant: str
    unit: str | None = None
    reverses: bool = False


#: Name of a comparison -> comparison.
RELATIVES = {
    "ratio": Comparison(lambda value, base: value / base, "relative_to_{base}", "ratio"),
    "speedup": Comparison(lambda value, base: base / value, "speedup_vs_{base}", "ratio", reverses=True),
    "difference": Comparison(lambda value, base: value - base, "vs_base_method"),
}


def units_of(stored: str) -> list[str]:
    """Return the printed units of a stored unit."""
    return [name for name, unit in UNITS.items() if unit.stored == stored]


def written(value: float | None, spread: float | None, unit: str, decimals: int | None = None) -> str:
    """Write a stored value in the printed ``unit``: "79.52 ± 0.13", "79.52" without a spread, "" without a value.

    ``decimals``: for a unit without decimals. Integer rounds have none: "259". Amounts that are too small have two
    significant figures: "0.00012".
    """
    if value is None:
        return ""
    digits = _decimals(value, unit, decimals)
    if spread is None and unit in WHOLE and value == int(value):
        digits = 0
    return _with_spread(value, spread, unit, ".4g" if digits is None else f".{digits}f")


def plural(count: int, noun: str) -> str:
    """Write a count with its noun: "1 column", "4 columns"."""
    return f"{count} {noun}{'s' * (count != 1)}"


def as_printed(value: float | None, spread: float | None, unit: str, decimals: int | None) -> str:
    """Write a paper's number with its ``decimals``; None: as :func:`written`."""
    if value is None or decimals is None:
        return written(value, spread, unit)
    return _with_spread(value, spread, unit, f".{decimals}f")


def _with_spread(value: float, spread: float | None, unit: str, form: str) -> str:
    factor = UNITS[unit].factor
    if spread is None:
        return f"{value * factor:{form}}"
    text = f"{value * factor:#{form}}".rstrip(".")  # 13.00, not 13
    decimals = form if "e" in text else f".{len(text.partition('.')[2])}f"
    deviation = f"{spread * factor:{decimals}}"
    if form.endswith("g") and spread and not float(deviation):
        deviation = f"{spread * factor:.1g}"  # 1234 ± 0.3
    return f"{text} ± {deviation}"


def each_seed(values: Sequence[float | None], seeds: Sequence[int], unit: str, decimals: int | None) -> str:
    """Write "seed 1: 92.60, seed 2: –", or "" without one value per seed."""
    if not values or len(values) != len(seeds):
        return ""
    texts = ("–" if value is None else written(value, None, unit, decimals) for value in values)
    return ", ".join(f"seed {seed}: {text}" for seed, text in zip(seeds, texts, strict=True))


def signed(value: float, unit: str, decimals: int | None = None) -> str:
    """Write a stored difference with its sign, "+" for zero. Integer rounds have no decimals: "+3"."""
    whole = unit in WHOLE and value == int(value)
    number, digits = value * UNITS[unit].factor, 0 if whole else _decimals(0.0, unit, decimals)
    text = f"{number:+.4g}" if digits is None else f"{round(number, digits) + 0.0:+.{digits}f}"
    return text.replace("-", "−")


def _decimals(value: float, unit: str, decimals: int | None) -> int | None:
    """Return the decimals of a stored ``value``; None: four significant figures."""
    unit_decimals = UNITS[unit].decimals
    number = abs(value * UNITS[unit].factor)
    if unit in AMOUNTS and 0 < number < 10 ** (1 - unit_decimals):
        return 1 - math.floor(math.log10(number))
    return decimals if unit_decimals is None else unit_decimals
