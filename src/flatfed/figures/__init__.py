"""Figures: a file per kind, ``draw_<kind>``. Their contents: :mod:`flatfed.plan.at_scale`."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

# The environment of a notebook may name a backend that matplotlib refuses at its import.
os.environ["MPLBACKEND"] = "Agg"

from matplotlib import pyplot

from flatfed.figures import captions, frames, style
from flatfed.figures.style import DPI, STYLE
from flatfed.files import write_whole
from flatfed.plan.at_scale import ShownFigure
from flatfed.runs import versions
from flatfed.runs.run import Run
from flatfed.tables.readings import read_all

#: Format -> options; without date and version, the same inputs give the same bytes.
FORMATS: dict[str, dict[str, Any]] = {
    "png": {"metadata": {"Software": None}, "dpi": DPI},
    "pdf": {"metadata": {"CreationDate": None, "ModDate": None, "Producer": None, "Creator": None}},
}


def make(spec: ShownFigure, out_dir: str | Path) -> list[Path]:
    """Draw the figure ``spec`` into ``out_dir`` as PNG (200 dpi) and PDF, its notes as text; return the files.

    Without any data, the picture says so.

    :raises DataError: a file that ``spec`` names is damaged or of another run, or seeds were trained by different code.
    """
    records = [record for record in read_all(Run.read_record, spec.runs.values()) if record]
    versions.check_same(records, spec.id)
    paths = [Path(out_dir) / f"{spec.id}.{suffix}" for suffix in (*FORMATS, "txt")]
    with pyplot.style.context(["default", STYLE]):  # not the user's matplotlibrc
        try:  # a module per kind: :data:`flatfed.plan.figures.KINDS`
            figure, explanation = importlib.import_module(f"flatfed.figures.draw_{spec.kind}").draw(spec)
        except frames.NoData as reason:  # a failed job would fail the report, too
            figure, explanation = style.empty(spec, str(reason)), [str(reason)]
        for path, (suffix, options) in zip(paths, FORMATS.items(), strict=False):
            with write_whole(path) as file:
                figure.savefig(file, format=suffix, **options)
        pyplot.close(figure)
    with write_whole(paths[-1], "w") as file:
        file.write(captions.text(spec, records, explanation))
    return paths
