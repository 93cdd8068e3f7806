"""A figure as text: what it draws and says, without its layout, which depends on fonts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, StepPatch
from matplotlib.ticker import FixedLocator
from mpl_toolkits.mplot3d.art3d import Poly3DCollection


def text_of(figure: Figure) -> str:
    """Return the texts, axes, legends and data of ``figure``, in the order of drawing; numbers with six digits."""
    lines = [f"title: {_joined(figure.get_suptitle())}"]
    for number, axis in enumerate((axis for axis in figure.axes if axis.get_visible()), 1):
        lines += ["", f"axes {number}", *(f"  {line}" for line in _axes(axis))]
    for legend in figure.legends:
        lines += ["", "legend", *(f"  {line}" for line in _legend(legend))]
    return "\n".join([*lines, "", *(f"text: {_joined(text.get_text())}" for text in figure.texts)]) + "\n"


def _joined(text: str) -> str:
    """Return ``text`` in one line: where it breaks depends on fonts."""
    return " ".join(text.split())


def _numbers(values: Iterable[float]) -> str:
    # Twelve decimals drop floating-point noise around 0.
    return " ".join(f"{round(value, 12) + 0.0:.6g}" for value in np.ravel(np.asarray(values, dtype=float)))


def _axes(axis: Axes) -> Iterator[str]:
    names = ("x", "y", "z") if axis.name == "3d" else ("x", "y")
    yield f"title: {axis.get_title()}"
    for name in names:
        line = getattr(axis, f"{name}axis")
        yield f"{name}: {_joined(line.get_label_text())}, limits {_numbers(getattr(axis, f'get_{name}lim')())}"
        if isinstance(line.get_major_locator(), FixedLocator):  # other ticks depend on the room for them
            ticks = line.get_major_formatter().format_ticks(line.get_majorticklocs())
            yield f"{name} ticks: {', '.join(filter(None, map(str, ticks)))}"
    for artist in [*axis.get_lines(), *axis.patches, *axis.collections]:
        yield from _artist(artist)
    yield from (f"text: {_joined(text.get_text())}" for text in axis.texts)
    if axis.get_legend():
        yield from ("legend", *(f"  {line}" for line in _legend(axis.get_legend())))


def _artist(artist: Artist) -> Iterator[str]:
    if isinstance(artist, Line2D):
        marked = artist.get_marker() not in ("None", "", None)
        look = f"{to_hex(artist.get_color())} {_dashes(artist)} width {artist.get_linewidth():.6g}"
        marker = f" marker {artist.get_marker()} {to_hex(artist.get_markerfacecolor())}" * marked
        x, y = artist.get_data()
        yield f"line {look}{marker}: x {_numbers(x)}; y {_numbers(y)}"
    elif isinstance(artist, StepPatch):
        yield f"outline {to_hex(artist.get_edgecolor())}: {_numbers(artist.get_data().values)}"
    elif isinstance(artist, Patch):
        box = artist.get_bbox()
        yield f"bar {to_hex(artist.get_facecolor())}: x {_numbers((box.x0, box.x1))}; y {_numbers((box.y0, box.y1))}"
    elif isinstance(artist, Poly3DCollection):
        filled = int((artist.get_facecolor()[:, 3] > 0).sum())
        corners = np.asarray(artist._faces)
        yield f"surface of {filled} faces, mesh of {len(corners) - filled}, four corners each:"
        yield from (f"  {_numbers(face)}" for face in corners)
    elif isinstance(artist, QuadMesh):
        if artist.axes.get_label() != "<colorbar>":
            yield "cells, a line for each row:"
            for row in np.ma.masked_array(artist.get_array()):
                yield "  " + " ".join("-" if number is np.ma.masked else f"{number:.6g}" for number in row)
    else:
        for path in artist.get_paths():
            colour = to_hex((*artist.get_facecolor(), *artist.get_edgecolor())[0])
            kind = "whisker" if isinstance(artist, LineCollection) else "area"
            yield f"{kind} {colour}: {_numbers(path.vertices)}"


def _dashes(line: Line2D) -> str:
    start, dashes = line._unscaled_dash_pattern
    return f"dashes {_numbers(dashes)} from {start:.6g}" if dashes else "solid"


def _legend(legend: Legend) -> Iterator[str]:
    for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
        marked = isinstance(handle, Line2D) and handle.get_marker() not in ("None", "", None)
        colour = "markerfacecolor" if marked else "color" if isinstance(handle, Line2D) else "facecolor"
        yield f"{text.get_text()}: {to_hex(getattr(handle, f'get_{colour}')())}{' marker' * marked}"
