"""Figures: one file per kind in this folder, one entry in ``KINDS``.

Figure specification (JSON, from ``flatfed.experiment``)::

    {"figure": "fedsmoo2023_F7", "kind": "curves", "scale": "preview" | "paper",
     "title": "Test accuracy over rounds", "paper": "Sun et al., ICML 2023, Figure 7",
     "setting": "digits {digits}, 30 clients, ...",         # one line: what was really trained
     "datasets": {"digits": {...}},                         # optional: where they are counted, see tables.trained_on
     "caption": "One panel a split.",                       # optional: what to see in it
     "tuning": [...], "unstated": [...],                    # what was tuned or was not; what the paper leaves open
     "made_of": {...},                                      # optional: which runs they are to be, runs.wanted.pack
     "metric": "test_accuracy",                             # a column of metrics.csv, see curves.QUANTITIES
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

    "kind": "surface", "line": see ``surface`` and ``line`` in this folder

``make`` writes ``<figure>.png`` (200 dpi, with the digest of the specification in it) and ``<figure>.pdf``; the
same inputs give the same bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

from flatfed.errors import DataError, unknown
from flatfed.figures import bars, curves, eigenvalues, heat_map, histogram, line, surface_3d, sweep
from flatfed.figures.gallery import MADE_OF
from flatfed.figures.style import DPI, STYLE, frame
from flatfed.files import digest_json, write_whole
from flatfed.specs.table import DatasetSpec
from flatfed.tables import made_of
from flatfed.tables.trained_on import as_read

#: Kind -> function of the specification that returns a matplotlib figure.
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

KEYS = ("figure", "kind", "scale", "title", "panels")


def png(made_of: str) -> dict[str, Any]:
    """Return how a PNG is saved that holds the digest of what it is ``made_of``."""
    return {**FORMATS["png"], "metadata": {**FORMATS["png"]["metadata"], MADE_OF: made_of}}


def make(spec: dict[str, Any], out_dir: str | Path) -> None:
    """Draw the figure that ``spec`` describes into ``out_dir`` as PNG and PDF, each file whole.

    :raises DataError: a key of ``spec`` is missing, its kind unknown, or a file it names is damaged.
    """
    name = f"figure {spec.get('figure', '?')}"
    absent = [key for key in KEYS if key not in spec]
    if absent:
        raise DataError(f"{name}: the specification lacks {', '.join(absent)}; needed: {', '.join(KEYS)}")
    if spec["kind"] not in KINDS:
        raise DataError(unknown("kind", spec["kind"], KINDS, name))
    if not spec["panels"]:
        raise DataError(f"{name}: no panels")
    for key in ("tuning", "unstated"):
        said = spec.get(key, [])
        if not isinstance(said, list) or not all(isinstance(line, str) for line in said):
            raise DataError(f"{name}: {key} is {said!r}; a list of texts is wanted")
    drawn_from = digest_json(spec)
    found = made_of.hold(spec)
    datasets = {name: DatasetSpec(**about) for name, about in spec.get("datasets", {}).items()}
    setting = as_read(spec.get("setting", ""), datasets, [record.counted for record in found])
    spec = {**spec, "setting": setting, "without_sums": made_of.without_sums(found)}
    with pyplot.rc_context(STYLE):
        figure = KINDS[spec["kind"]](spec)
        try:
            shown = frame(figure)
            for suffix, options in FORMATS.items():
                if suffix == "png":
                    options = png(drawn_from)
                with write_whole(Path(out_dir) / f"{spec['figure']}.{suffix}") as file:
                    figure.savefig(file, format=suffix, bbox_inches=shown, **options)
        finally:
            pyplot.close(figure)
