"""What the figures share: type sizes for a printed page, and the lines that say what was really run."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from matplotlib.figure import Figure

from flatfed.tables.figures.palette import rank

#: matplotlib settings: type of 7 to 9 points at the printed width, fonts embedded as outlines that journals
#: accept.
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "legend.fontsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.7,
    "axes.edgecolor": "#444444",
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "pdf.fonttype": 42,
    "svg.hashsalt": "flatfed",
}

#: Column of metrics.csv -> (axis label with unit, printed units in one stored unit).
QUANTITIES = {
    "test_accuracy": ("Test accuracy (%)", 100.0),
    "train_accuracy": ("Train accuracy (%)", 100.0),
    "client_train_accuracy": ("Clients' train accuracy (%)", 100.0),
    "client_test_accuracy": ("Clients' test accuracy (%)", 100.0),
    "test_loss": ("Test loss (nats)", 1.0),
    "train_loss": ("Training loss (nats)", 1.0),
    "consistency": ("Consistency $\\frac{1}{n}\\sum\\|w_i-w^{t+1}\\|^2$ (weights, squared)", 1.0),
}

#: Measure taken along the way (``probes`` of run.json) -> as above.
PROBES = {
    "perturbation_drift": ("Perturbation drift (0 to 1)", 1.0),
    "sharpness": ("Global sharpness (nats)", 1.0),
    "m_sharpness": ("Global m-sharpness (nats)", 1.0),
}

#: What begins the lines of the foot, and its key in a specification.
SOURCES = (("Paper", "paper"), ("Here", "setting"))

#: Width of a figure across two columns of a conference page, inches.
WIDTH = 7.0


def caption(figure: Figure, spec: dict[str, Any], reading: str) -> None:
    """Head ``figure`` with its title and foot it: paper, caption; setting, choices of the tuning; how to read it.

    A figure of preview scale says so in its title, like the tables.
    """
    scale = "Preview scale, not the paper's data: " if spec["scale"] == "preview" else ""
    title = textwrap.fill(scale + spec["title"], 92, break_on_hyphens=False)
    figure.suptitle(title, fontsize=10, x=0.005, ha="left", fontweight="bold")
    paper, here = (f"{word}: {spec[key]}" if spec.get(key) else "" for word, key in SOURCES)
    said = [paper, spec.get("caption", "")], [here, *spec.get("tuned", [])], [reading]
    lines = [" ".join(text.rstrip(".") + "." for text in texts if text) for texts in said]
    foot = "\n".join(textwrap.fill(line, 150, break_on_hyphens=False) for line in lines if line)
    # Below the page's edge: the layout engine has no place for a second line under a legend, and files are
    # cut to what is drawn.
    figure.text(0.005, -0.008, foot, fontsize=6.5, color="#555555", ha="left", va="top", linespacing=1.4)


def columns(panels: int) -> int:
    """Return how many panels stand side by side: three where they fill their rows, as in the papers, else two."""
    return 3 if panels % 3 == 0 else min(panels, 2)


def legend(figure: Figure, entries: dict[str, Any], algorithms: dict[str, str] | None = None) -> None:
    """Put the legend of the whole figure under its panels, in one row of up to six or two rows.

    ``algorithms``, label -> algorithm id, puts the labels into the house's order.
    """
    if algorithms:
        entries = {label: entries[label] for label in sorted(entries, key=lambda label: rank(algorithms[label]))}
    columns = len(entries) if len(entries) <= 6 else math.ceil(len(entries) / 2)
    foot = 0.2 * math.ceil(len(entries) / columns) / figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, foot, 1, 1 - foot))
    # Anchored through transFigure: the figure's own box moves when the file is cut to what is drawn.
    place = {
        "loc": "lower center",
        "bbox_to_anchor": (0.5, 0),
        "bbox_transform": figure.transFigure,
        "borderaxespad": 0,
    }
    figure.legend(entries.values(), entries.keys(), ncols=columns, frameon=False, **place)
