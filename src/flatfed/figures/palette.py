"""One colour and dash pattern per algorithm, the same in all figures.

Solid: plain gradients, and FedSMOO and FedLESAM, which are dark. Dashed: sharpness-aware. Dotted: decentralised.
Dash-dotted: centralised. Colours that one paper plots together also differ in lightness, for colour-blind readers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from matplotlib.colors import to_hex, to_rgb
from matplotlib.lines import Line2D

from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import Mark
from flatfed.runs.paths import without_label

SOLID, DASHED, DOTTED, DASHDOT = "-", (0, (4.5, 1.4)), (0, (1.2, 1.2)), (0, (5, 1.4, 1.2, 1.4))

#: Dash pattern -> its meaning.
MEANINGS = {
    DASHED[1]: "Dashed: sharpness-aware, except FedSMOO and FedLESAM",
    DOTTED[1]: "Dotted: decentralised",
    DASHDOT[1]: "Dash-dotted: centralised",
}

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
    "fedswa": ("#9acd32", SOLID),
    "fedmoswa": ("#556b2f", SOLID),
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

#: Width of a line, and of a highlighted one.
WIDTH, WIDEST = 1.5, 3.0

#: Dash patterns of variants (``fedsmoo~rho0.05``), which keep the colour of their algorithm.
VARIANTS = ((0, (3, 1)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)))


def style(algorithm: str) -> tuple[str, object]:
    """Return the colour and the dash pattern of an algorithm id."""
    base, _, label = algorithm.partition("~")
    colour, dashes = STYLES.get(base) or (_pick(base, OTHERS), SOLID)
    return colour, (_pick(label, VARIANTS) if label else dashes)


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


def lines(marks: Sequence[Mark], highlighted: Collection[str]) -> dict[str, Any]:
    """Return the options of ``seaborn.lineplot`` for the looks of the labels of ``marks``.

    Dashed lines are drawn over solid ones, so that coinciding lines are visible; a highlighted label is on top.
    """
    algorithms = {mark.label: mark.algorithm for mark in marks}
    looks = dict(zip(algorithms, styles(list(algorithms.values())), strict=True))
    return {
        **dict.fromkeys(("hue", "style", "size"), "label"),
        "hue_order": sorted(looks, key=lambda label: (label in highlighted, looks[label][1] != SOLID)),
        "palette": {label: colour for label, (colour, _) in looks.items()},
        "dashes": {label: "" if dashes == SOLID else dashes[1] for label, (_, dashes) in looks.items()},
        "sizes": {label: WIDEST if label in highlighted else WIDTH for label in looks},
        "legend": False,
    }


def meanings(options: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the meanings of the dash patterns of ``options`` from :func:`lines`, none if some tell variants apart."""
    patterns = {dashes for panel in options for dashes in panel["dashes"].values() if dashes}
    return [text for dashes, text in MEANINGS.items() if dashes in patterns and patterns <= MEANINGS.keys()]


def stroke(options: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return the look of one line of ``options`` from :func:`lines`, for matplotlib."""
    dashes = options["dashes"][label]
    look = {"color": options["palette"][label], "linewidth": options["sizes"][label]}
    return {**look, "linestyle": (0, dashes) if dashes else "-"}


def entries(options: Mapping[str, Any]) -> dict[str, Line2D]:
    """Return label -> the legend's line of ``options`` from :func:`lines`."""
    return {label: Line2D([], [], **stroke(options, label)) for label in options["palette"]}


def highlighted(spec: ShownFigure) -> set[str]:
    """Return the labels of the highlighted algorithm."""
    return {mark.label for mark in spec.marks if mark.algorithm == spec.highlight}


def _pick(name: str, choices: tuple) -> object:
    # Python's hash differs between processes.
    return choices[int(hashlib.sha256(name.encode()).hexdigest(), 16) % len(choices)]
