"""The specifications of ``cell``, ``table``, ``figure``, ``report`` and ``choose``, checked as if written by hand.

What the keys mean stands with the dataclasses of :mod:`flatfed.specs`, and in :mod:`flatfed.figures`.
"""

from __future__ import annotations

from typing import Any

from flatfed import forms
from flatfed.errors import DataError
from flatfed.forms import Named, Some, Values, Whole, check, form_of
from flatfed.papers import figure_kinds
from flatfed.runs.choice import Choice
from flatfed.specs.cell import SCALES, CellSpec
from flatfed.specs.pages import ReportSpec
from flatfed.specs.table import DatasetSpec, TableSpec

TEXTS = [str]
MADE_OF = {"partitions": [(str, None)], "runs": [list]}

#: Sub-command -> what it takes.
KINDS: dict[str, type] = {"cell": CellSpec, "table": TableSpec, "report": ReportSpec, "choose": Choice}

#: What has a line, a bar or a point of its own.
ONE = {"algorithm": str, "label": str}
RUNS = [(str, TEXTS)]
FINAL = {"rounds": Whole(0), "runs": RUNS}

#: Kind of figure -> what its panels hold beside the title.
PANELS: dict[str, dict[str, Any]] = {
    "curves": {"metric?": str, "series": Some({**ONE, "runs": TEXTS, "steps?": Whole(1)})},
    "sweep": {
        "axis": str,
        "series": [{**ONE, "points": [{"x": float, **FINAL}]}],
        "levels": [{**ONE, **FINAL}],
    },
    "bars": {"bars": Some({**ONE, **FINAL})},
    "eigenvalues": {"bars": Some({**ONE, "hessians": TEXTS, "runs?": TEXTS})},
    "partition": {"partition": str},
    "histogram": {"partitions": Some({"label": str, "partition": str})},
    "surface": {"surfaces": Some({"label": str, "surface": str, "model?": Whole(0), "runs?": TEXTS})},
    "line": {"lines": Some({"label": str, "line": str, "runs?": TEXTS})},
}


def checked(spec: dict[str, Any], command: str) -> Any:
    """Return ``spec``, what ``command`` takes, as its dataclass (that of a figure as it is).

    :raises DataError: a key is missing, or its value of another kind.
    """
    try:
        if command != "figure":
            return forms.read(KINDS[command], spec, "--spec")
        check(spec, _figure(spec), "--spec")
        return spec
    except DataError as error:
        wanted = f"`snakemake -n -p --forcerun {command}` prints calls with whole specifications"
        raise DataError(f"{error}. {wanted}") from None


def _figure(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the form of a figure of the kind that ``spec`` says it is."""
    kind = spec.get("kind")
    known = isinstance(kind, str) and kind in figure_kinds.KINDS
    panel = {"title": str, **(PANELS[kind] if known else {})}
    return {
        **{
            "figure": str,
            "kind": Named("kind", tuple(figure_kinds.KINDS)),
            "scale": Named("scale", SCALES),
            "title": str,
            "panels": Some(panel),
        },
        **dict.fromkeys(("paper?", "setting?", "caption?"), str),
        **{"datasets?": Values(form_of(DatasetSpec)), "made_of?": MADE_OF},
        "across?": Named("axis", ("rounds", "communications")),
        "metric" if known and figure_kinds.KINDS[kind].reads == "runs" else "metric?": str,
        **{"smooth?": Whole(0), "tuning?": TEXTS, "unstated?": TEXTS},
    }
