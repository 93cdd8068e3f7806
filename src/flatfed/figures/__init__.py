"""Figures: one file per kind in this folder, one entry in ``KINDS``.

Figure specification (JSON, from ``flatfed.experiment``)::

    {"figure": "fedsmoo2023_F7", "kind": "curves", "scale": "preview" | "paper",
     "title": "Test accuracy over rounds", "paper": "Sun et al., ICML 2023, Figure 7",
     "setting": "digits {digits}, 30 clients, ...",         # one line: what was really trained
     "datasets": {"digits": {...}},                         # optional: where they are counted, see tables.trained_on
     "caption": "One panel a split.",                       # optional: what to see in it
     "tuning": [...], "unstated": [...],                    # what was tuned or was not; what the paper leaves open
     "made_of": {...},                                      # optional: which runs they are to be, runs.wanted.pack
     "metric": "test_accuracy",                             # see flatfed.papers.figure_kinds
     "smooth": 9,                                           # Hanning window, evaluated rounds, odd; 0: none
     "panels": [{"title": "Dirichlet, u = 0.6",             # one per split, as in the paper
                 "series": [{"algorithm": "fedavg", "label": "FedAvg", "runs": ["results/.../seed1", ...]}, ...]}]}

    {"figure": "fedsmoo2023_F5", "kind": "partition", "scale": ..., "title": ..., "paper": ..., "setting": ...,
     "panels": [{"title": "Dirichlet, u = 0.6", "partition": "results/.../seed1.npz"}, ...]}

    "kind": "histogram", "panels": [{"title": ..., "partitions": [{"label": "replaced", "partition": FILE}, ...]}]
    "kind": "sweep", with "metric": "panels": [{"title": ..., "axis": "Local epochs",
        "series": [{"algorithm": ..., "label": ..., "points": [{"x": 5, "rounds": 800, "runs": RUNS}, ...]}, ...],
        "levels": [{"algorithm": ..., "label": ..., "rounds": 800, "runs": RUNS}, ...]}]
    "kind": "bars", with "metric": "panels": [{"title": ..., "bars": [{"algorithm": ..., "label": ..., "rounds": 800,
        "runs": ["results/.../seed1", ...]}, ...]}, ...]

RUNS is a list per seed of the run folders whose mean is that seed's number. Curves may have ``"across":
"communications"``, and then ``"steps"`` in each series, by which its rounds are multiplied.

    "kind": "eigenvalues", "surface" or "line": see the files ``eigenvalues``, ``surface_3d`` and ``line``

``make`` writes ``<figure>.png`` (200 dpi, with the digest of the specification in it) and ``<figure>.pdf``; the
same inputs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.figure import Figure

from flatfed.figures import bars, curves, eigenvalues, heat_map, histogram, line, surface_3d, sweep
from flatfed.figures.gallery import MADE_OF
from flatfed.figures.style import DPI, STYLE, frame
from flatfed.files import digest_json, write_whole
from flatfed.specs.table import DatasetSpec
from flatfed.tables import made_of
from flatfed.tables.trained_on import as_read

#: Kind (:mod:`flatfed.papers.figure_kinds`) -> function of the specification that returns a matplotlib figure.
KINDS = {
    "curves": curves.draw,
    "sweep": sweep.draw,
    "bars": bars.draw,
    "eigenvalues": eigenvalues.draw,
    "partition": heat_map.draw,
    "histogram": histogram.draw,
    "surface": surface_3d.draw,
    "line": line.draw,
}

#: Format -> what keeps the date and the library's version out of the file: the same inputs give the same
#: bytes.
FORMATS: dict[str, dict[str, Any]] = {
    "png": {"metadata": {"Software": None}, "dpi": DPI},
    "pdf": {"metadata": {"CreationDate": None, "ModDate": None, "Producer": None, "Creator": None}},
}


def make(spec: dict[str, Any], out_dir: str | Path) -> None:
    """Draw the figure that ``spec`` describes into ``out_dir`` as PNG and PDF, each file whole.

    :raises DataError: a file that ``spec`` names is damaged, or of another run than it says.
    """
    drawn_from = digest_json(spec)
    records = made_of.hold(spec)
    datasets = {name: DatasetSpec(**about) for name, about in spec.get("datasets", {}).items()}
    setting = as_read(spec.get("setting", ""), datasets, [record.counted for record in records])
    spec = {**spec, "setting": setting, "without_sums": made_of.without_sums(records)}
    paths = [Path(out_dir) / f"{spec['figure']}.{suffix}" for suffix in FORMATS]
    save(lambda: KINDS[spec["kind"]](spec), paths, drawn_from)


def save(draw: Callable[[], Figure], paths: list[Path], drawn_from: str) -> None:
    """Write the figure that ``draw`` returns to ``paths``, each whole, in the formats that their suffixes name.

    A PNG holds ``drawn_from``, the digest of what the figure is drawn from, so that it can be told when it is older.
    """
    with pyplot.rc_context(STYLE):
        figure = draw()
        try:
            shown = frame(figure)
            for path in paths:
                options = dict(FORMATS[path.suffix[1:]])
                if path.suffix == ".png":
                    options["metadata"] = {**options["metadata"], MADE_OF: drawn_from}
                with write_whole(path) as file:
                    figure.savefig(file, format=path.suffix[1:], bbox_inches=shown, **options)
        finally:
            pyplot.close(figure)
