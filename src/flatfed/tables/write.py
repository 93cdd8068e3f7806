"""A table in four formats: what the paper's reader knows, with our number beside the printed one.

Table specification (JSON, from ``flatfed.experiment``)::

    {"table": "fedsmoo2023_T6", "scale": "preview" | "paper",
     "title": "Rounds to a target accuracy",        # what the table shows, in the paper's words
     "paper": "Sun et al., ICML 2023, Table 6",     # optional: where it is printed
     "printed": false,                              # optional: no numbers of a paper's stand beside ours
     "setting": "digits {digits}, 30 clients, ...", # one line: data, clients, model, rounds, really used at this scale
     "datasets": {"digits": {...}},                 # optional: where they are counted, see flatfed.tables.trained_on
     "metric": "Test accuracy",                     # what a number is, in words; the unit is added
     "unit": "percent" | "rounds",                  # as printed
     "row_header": "Algorithm",                     # optional
     "rows": [{"id": "fedsmoo", "label": "FedSMOO"}, ...],
     "columns": [{"id": "dir0.1-100.rounds-t1",
                  "headers": ["CIFAR-10", "Dirichlet 0.1", "acc = 68%"],  # the paper's header levels, outermost first
                  "part": "10% of 100 clients" | null,    # the upper / lower part; parts are stacked
                  "paper_target": 0.68 | null}, ...],     # the printed target as a fraction, of any scale
     "cells": "results/preview/cells/fedsmoo2023_T6",     # cells are read from <cells>/<column id>/<row id>.json
     "notes": ["...", ...],                         # optional: unstated choices, deviations, the paper's spread
     "flags": {"B1": "..."}}                        # optional: the errata that the reference notes cite as flag:B1
 ``make`` writes ``<table>.csv`` (one line per cell, every field), ``.md``, ``.tex`` (a bare ``tabular`` for
``\\input``, rules of booktabs) and ``.html`` (self-contained). A cell file that is absent is an empty cell,
counted under the table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flatfed.errors import DataError
from flatfed.files import write_whole
from flatfed.tables.blocks import read
from flatfed.tables.formats import FORMATS

KEYS = ("table", "scale", "title", "metric", "unit", "rows", "columns", "cells")


def make(spec: dict[str, Any], out_dir: str | Path) -> None:
    """Write the table that ``spec`` describes into ``out_dir`` in every format, each file whole.

    :raises DataError: a key of ``spec`` is missing, or a cell is damaged or of another scale.
    """
    absent = [key for key in KEYS if key not in spec]
    if absent:
        name = f"table {spec.get('table', '?')}"
        raise DataError(f"{name}: the specification lacks {', '.join(absent)}; needed: {', '.join(KEYS)}")
    table = read(spec)
    for suffix, render in FORMATS.items():
        with write_whole(Path(out_dir) / f"{table.id}.{suffix}", "w") as file:
            file.write(render(table))
