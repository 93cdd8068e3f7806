"""A partition as a heat map: training images per client and class, as in FedSMOO and FedLESAM, Figure 5."""

from __future__ import annotations

import seaborn
from matplotlib.colors import ListedColormap, PowerNorm
from matplotlib.figure import Figure

from flatfed.data import partition as partitions
from flatfed.figures import style
from flatfed.plan.at_scale import ShownFigure

#: The most clients, and classes, of a panel with lines between the cells.
FEW = 40

#: Light to dark; the lightest is distinct from white.
COLOURS = ListedColormap(seaborn.color_palette("mako_r", 256).as_hex()[20:225])


def draw(spec: ShownFigure) -> tuple[Figure, list[str]]:
    """Return a figure of kind "partition" and its explanation; all panels share one colour scale, zero is white.

    :raises DataError: a partition file is absent or damaged.
    """
    counts = [partitions.load(panel.marks[0].files[0]).class_counts for panel in spec.panels]
    most = max(int(count.max()) for count in counts)
    height = min(3.4, 0.9 + 0.12 * max(count.shape[1] for count in counts))  # of a row, for ten labelled classes
    look = {"across": 2, "height": height, "least": style.PANEL}
    figure, axes = style.panels(spec, [panel.title for panel in spec.panels], **look)
    for axis, count in zip(axes, counts, strict=True):
        clients, classes = (style.step(number) for number in count.shape)
        # A power norm: most counts of a Dirichlet partition are small, a few are large.
        look = {"cmap": COLOURS, "norm": PowerNorm(0.6, 0, most), "cbar": False, "rasterized": True}
        look |= {"linewidths": 0.4, "linecolor": "#e4e4e4"} if max(count.shape) <= FEW else {}
        seaborn.heatmap(count.T, mask=count.T == 0, xticklabels=clients, yticklabels=classes, ax=axis, **look)
        axis.set(xlabel="Client", ylabel="Class")
        axis.tick_params(rotation=0)
        axis.grid(visible=False)
        seaborn.despine(ax=axis, top=False, right=False, left=False, bottom=False)
    bar = figure.colorbar(axes[0].collections[0], ax=axes, fraction=0.03, pad=0.015, aspect=30)
    bar.set_label("Training images")
    sizes = sorted({int(total) for count in counts for total in count.sum(axis=1)})
    size = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    return figure, [f"Each client holds {size} training images; white: none of that class"]
