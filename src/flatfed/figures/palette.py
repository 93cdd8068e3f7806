"""One colour and dash pattern per algorithm, the same in all figures.

Solid: plain gradients, and FedSMOO and FedLESAM, which are dark. Dashed: sharpness-aware. Dotted: decentralised.
Dash-dotted: centralised. Colours that one paper plots together also differ in lightness, for colour-blind readers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.colors import to_hex, to_rgb

from flatfed.runs.paths import without_label

SOLID, DASHED, DOTTED, DASHDOT = "-", (0, (4.5, 1.4)), (0, (1.2, 1.2)), (0, (5, 1.4, 1.2, 1.4))

#: Algorithm id -> (colour, dash pattern).
STYLES = {
    "fedavg": ("#7f7883", SOLID),
    "fedprox": ("#b9a44c", SOLID),
    "fedadam": ("#e3c000", SOLID),
    "scaffold": ("#56b4e9", SOLID),
    "fedcm": ("#10a37a", SOLID),
    "mimelite": ("#8fd175", SOLID),
    "fedrobust": ("#c9b3d9", SOLID),
    "feddyn": ("#0053a6", SOLID),
    "fedsam": ("#e69f00", DASHED),
    "mofedsam": ("#d55e00", DASHED),
    "fedgamma": ("#44aa99", DASHED),
    "fedgmt": ("#7b3f00", SOLID),
    "fedspeed": ("#88a0dc", DASHED),
    "fedsmoo": ("#a3195b", SOLID),
    "fedlesam": ("#000000", SOLID),
    "fedlesam_s": ("#5b5b9e", DASHED),
    "fedlesam_d": ("#332288", DASHED),
    "fedwmsam": ("#c0392b", DASHED),
    "dpsgd": ("#9f7660", DOTTED),
    "dfedavg": ("#3f3f46", DOTTED),
    "dfedavgm": ("#cc79a7", DOTTED),
    "dispfl": ("#117733", DOTTED),
    "dfedsam": ("#ee7733", DOTTED),
    "dfedsam_mgs": ("#8c1010", DOTTED),
    "centralised_sgd": ("#a6a6a6", DASHDOT),
    "centralised_sam": ("#c8843c", DASHDOT),
}

#: Bright colours of users' algorithms.
OTHERS = ("#ff1493", "#00a5ff", "#7fbf00", "#8a2be2")

#: Width of a highlighted line.
WIDEST = 3.0

#: Dash patterns of variants (``fedsmoo~rho0.05``), which keep the colour of their algorithm.
VARIANTS = ((0, (3, 1)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)))


def style(algorithm: str) -> tuple[str, object]:
    """Return the colour and the dash pattern of an algorithm id."""
    base, _, label = algorithm.partition("~")
    colour, dashes = STYLES.get(base) or (_pick(base, OTHERS), SOLID)
    return colour, (_pick(label, VARIANTS) if label else dashes)


def rank(algorithm: str) -> int:
    """Return the rank of an algorithm id in legends; users' algorithms come last."""
    base = without_label(algorithm)
    return list(STYLES).index(base) if base in STYLES else len(STYLES)


def styles(algorithms: Sequence[str]) -> list[tuple[str, object]]:
    """Return the looks of the lines of one panel.

    Several lines of one algorithm go from light to its colour; the last one has its dash pattern.
    """
    bases = [without_label(algorithm) for algorithm in algorithms]
    looks = []
    for index, (algorithm, base) in enumerate(zip(algorithms, bases, strict=True)):
        turn, last = bases[:index].count(base), bases.count(base) - 1
        colour, dashes = style(base if last else algorithm)
        if last:
            white = 0.62 * (1 - turn / last)
            colour = to_hex([(1 - white) * part + white for part in to_rgb(colour)])
            dashes = dashes if turn == last else VARIANTS[turn % len(VARIANTS)]
        looks.append((colour, dashes))
    return looks


def strokes(
    looks: Iterable[tuple[str, tuple[str, Any]]], highlight: str | None = None
) -> dict[tuple[str, Any], dict[str, Any]]:
    """Return look -> line style for ``looks``, (algorithm, look), such that coinciding lines are visible.

    Solid lines are lowest, the first ones (:func:`rank`) widest. Lines of one dash pattern start at different offsets.
    The line of the algorithm ``highlight`` is on top, and the widest.
    """
    looks = list(looks)
    ordered = list(dict.fromkeys(look for _, look in sorted(looks, key=lambda pair: rank(pair[0]))))
    families = [dashes for _, dashes in ordered]
    drawn = {}
    for index, (colour, dashes) in enumerate(ordered):
        turn, number, level, width = families[:index].count(dashes), families.count(dashes), 2, 1.5
        line = dashes
        if dashes != SOLID:
            start, pattern = dashes
            line, level = (start + turn * sum(pattern) / number, pattern), 3
        elif number > 1:
            width = 2.4 - 1.3 * turn / (number - 1)
        drawn[colour, dashes] = {"color": colour, "linestyle": line, "linewidth": width, "zorder": level + index / 100}
    for look in (look for algorithm, look in looks if algorithm == highlight):
        drawn[look] |= {"linewidth": WIDEST, "zorder": 5}
    return drawn


def _pick(name: str, choices: tuple) -> object:
    # Python's hash differs between processes.
    return choices[int(hashlib.sha256(name.encode()).hexdigest(), 16) % len(choices)]
