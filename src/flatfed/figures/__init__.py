"""Figures: a file per kind. Their contents: :mod:`flatfed.experiment.panels`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.figure import Figure

from flatfed.engine import versions
from flatfed.experiment.figure_specs import FigureSpec
from flatfed.figures import bars, curves, eigenvalues, heat_map, histogram, surface_3d, sweep
from flatfed.figures.style import DPI, STYLE, frame
from flatfed.files import write_whole
from flatfed.runs.run import Run
from flatfed.tables.image_counts import with_counts
from flatfed.tables.readings import read_all

#: Kind (:mod:`flatfed.papers.figure_kinds`) -> function of the specification that returns a matplotlib figure.
KINDS = {
    "curves": curves.draw,
    "sweep": sweep.draw,
    "bars": bars.draw,
    "eigenvalues": eigenvalues.draw,
    "partition": heat_map.draw,
    "histogram": histogram.draw,
    "surface": surface_3d.draw,
}

#: Format -> options; without date and version, the same inputs give the same bytes.
FORMATS: dict[str, dict[str, Any]] = {
    "png": {"metadata": {"Software": None}, "dpi": DPI},
    "pdf": {"metadata": {"CreationDate": None, "ModDate": None, "Producer": None, "Creator": None}},
}


def make(spec: FigureSpec, out_dir: str | Path) -> list[Path]:
    """Draw the figure ``spec`` into ``out_dir`` as PNG (200 dpi) and PDF; return the files.

    :raises DataError: a file that ``spec`` names is damaged or of another run, or seeds were trained by different code.
    """
    records = [record for record in read_all(Run.read_record, spec.runs.values()) if record]
    versions.check_same(records, spec.figure)
    counts = (record.image_counts for record in records)
    counted = replace(spec, setting=with_counts(spec.setting, spec.datasets, counts))
    paths = [Path(out_dir) / f"{spec.figure}.{suffix}" for suffix in FORMATS]
    save(lambda: KINDS[spec.kind](counted), paths)
    return paths


def save(draw: Callable[[], Figure], paths: list[Path]) -> None:
    """Write the figure that ``draw`` returns to ``paths``, in the formats of their suffixes."""
    with pyplot.rc_context(STYLE):
        figure = draw()
        try:
            box = frame(figure)
            for path in paths:
                suffix = path.suffix[1:]
                with write_whole(path) as file:
                    figure.savefig(file, format=suffix, bbox_inches=box, **FORMATS[suffix])
        finally:
            pyplot.close(figure)
