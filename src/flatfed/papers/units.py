"""Units: what a paper prints, what a cell stores, how a number is written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """A printed unit: the unit that cells store, how many printed ones make one stored, and how it is written.

    ``decimals`` are those of the papers' tables; None: the paper's own, else four significant figures. ``words`` follow
    the name of a quantity, as in "Test accuracy in percent".
    """

    stored: str
    factor: float
    decimals: int | None
    words: str


#: Printed units, by their names in config/reference, where the empty unit is ``number`` here.
UNITS = {
    "percent": Unit("fraction", 100.0, 2, " in percent"),
    "pp": Unit("fraction", 100.0, 2, " in percentage points"),
    "rounds": Unit("rounds", 1.0, 1, ", counted from round 1"),
    "count": Unit("count", 1.0, 0, ""),
    "number": Unit("number", 1.0, None, ""),
    "squared_l2": Unit("squared_l2", 1.0, 3, " as a squared Euclidean norm"),
    "s": Unit("seconds", 1.0, 2, " in seconds"),
    "minutes": Unit("seconds", 1 / 60, 1, " in minutes"),
    "GB": Unit("bytes", 1e-9, 2, " in gigabytes"),
    "GB_params": Unit("parameters", 1e-9, 1, " in billions of parameters"),
    "x": Unit("ratio", 1.0, 2, " as a ratio"),
    "V": Unit("ratio", 1.0, 2, " in units of the base row's total"),
}

#: Units whose numbers are whole where they are no mean.
WHOLE = ("rounds", "count")

#: Units of amounts that a small set-up has a tiny part of: the papers' decimals would show nothing.
AMOUNTS = ("s", "minutes", "GB", "GB_params")


def units_of(stored: str) -> list[str]:
    """Return the printed units of what cells store in the unit ``stored``."""
    return [name for name, unit in UNITS.items() if unit.stored == stored]


def written(value: float | None, spread: float | None, unit: str, decimals: int | None = None) -> str:
    """Write a stored value in the printed ``unit``: "79.52 ± 0.13", "79.52" without a spread, "" without a value.

    ``decimals`` are those of the paper's number, for a unit that has none of its own. Whole rounds that are no mean
    have no decimals: "259". Amounts too small for the paper's decimals have two significant figures: "0.00012".
    """
    if value is None:
        return ""
    places = _places(value, unit, decimals)
    if spread is None and unit in WHOLE and value == int(value):
        places = 0
    return _with_spread(value, spread, unit, ".4g" if places is None else f".{places}f")


def many(count: int, thing: str) -> str:
    """Write a number of things: "1 column", "4 columns"."""
    return f"{count} {thing}{'s' * (count != 1)}"


def as_printed(value: float | None, spread: float | None, unit: str, decimals: int | None) -> str:
    """Write a paper's number with the decimals that it is printed with; without them as :func:`written`."""
    if value is None or decimals is None:
        return written(value, spread, unit)
    return _with_spread(value, spread, unit, f".{decimals}f")


def _with_spread(value: float, spread: float | None, unit: str, form: str) -> str:
    factor = UNITS[unit].factor
    return " ± ".join(f"{number * factor:{form}}" for number in (value, spread) if number is not None)


def each_seed(values: Sequence[float | None], seeds: Sequence[int], unit: str, decimals: int | None) -> str:
    """Write the value of every seed, as in "seed 1: 92.60, seed 2: –"; "" where there is not one value a seed."""
    if not values or len(values) != len(seeds):
        return ""
    texts = ("–" if value is None else written(value, None, unit, decimals) for value in values)
    return ", ".join(f"seed {seed}: {text}" for seed, text in zip(seeds, texts, strict=True))


def signed(value: float, unit: str, decimals: int | None = None) -> str:
    """Write a stored difference with its sign; what is rounded to zero has "+"."""
    number, places = value * UNITS[unit].factor, _places(0.0, unit, decimals)
    text = f"{number:+.4g}" if places is None else f"{round(number, places) + 0.0:+.{places}f}"
    return text.replace("-", "−")


def _places(value: float, unit: str, decimals: int | None) -> int | None:
    """Return the decimals that a stored ``value``, and its spread, are written with; None: four significant figures."""
    own = UNITS[unit].decimals
    number = abs(value * UNITS[unit].factor)
    if unit in AMOUNTS and 0 < number < 10 ** (1 - own):
        return 1 - math.floor(math.log10(number))
    return decimals if own is None else own
