"""The forms of what Snakemake passes to ``cell``, ``table``, ``figure``, ``report`` and ``choose``, for calls by hand.

What the keys mean stands in the modules that read them: :mod:`flatfed.tables` and :mod:`flatfed.figures`.
"""

from __future__ import annotations

import json
from typing import Any

from flatfed.errors import DataError
from flatfed.forms import Named, Some, Whole, check, form_of
from flatfed.papers.reference import Printed
from flatfed.papers.units import UNITS
from flatfed.runs.choice import Choice
from flatfed.runs.wanted import folders

NUMBER, TEXT, TEXTS = (float, None), (str, None), [str]
SCALE = Named("scale", ("preview", "paper"))
UNIT = Named("unit", tuple(UNITS))
DATASET = {"manifest": str, "images": Whole(0), "of": Whole(0), "shape": Some(Whole(1))}
MADE_OF = {"partitions": [TEXT], "runs": [list]}
PACKED = {"share": dict, "each": [dict]}
UPDATE = {"name": str, "params": dict}

CELL = {
    **dict.fromkeys(("table", "column", "row", "metric"), str),
    **{"scale": SCALE, "unit": UNIT, "target": NUMBER, "window": Whole(1), "rounds": Whole(0)},
    **{"seeds": [Whole(0)], "runs": TEXTS, "base_runs?": TEXTS, "relative?": TEXT, "base?": TEXT, "compare?": str},
    "paper": (form_of(Printed), None),
    **{"timing?": str, "base_timing?": str, "analyses?": TEXTS, "base_analyses?": TEXTS},
    **{"update?": UPDATE, "base_update?": UPDATE, "given?": NUMBER},
    **{"descriptions?": PACKED, "base_descriptions?": PACKED, "partitions?": [TEXT], "base_partitions?": [TEXT]},
}

TABLE = {
    **dict.fromkeys(("table", "title", "metric", "cells"), str),
    **dict.fromkeys(("paper?", "setting?", "row_header?"), str),
    **{"datasets?": dict, "printed?": bool},
    **{"scale": SCALE, "unit": UNIT, "notes?": TEXTS, "flags?": dict},
    "rows": Some({"id": str, "label": str}),
    "columns": Some({"id": str, "headers": Some(str), "part?": TEXT, "paper_target?": NUMBER}),
}

REPORT = {
    **{"scale": SCALE, "tables": [TABLE], "runs": TEXTS, "made_of": MADE_OF, "configuration": dict, "left_out?": TEXTS},
    "figures": [{**dict.fromkeys(("figure", "title", "paper", "setting", "caption", "png"), str), "datasets?": dict}],
}

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


def checked(spec: dict[str, Any], command: str) -> dict[str, Any]:
    """Return ``spec``, what ``command`` takes, refused where it is not whole.

    :raises DataError: a key is missing, or its value of another kind.
    """
    form = _figure(spec) if command == "figure" else FORMS[command]
    try:
        check(spec, form, "--spec")
        if "made_of" in spec:
            _check_made_of(spec["made_of"], folders(spec["panels"]) if command == "figure" else spec["runs"])
        inner = {f"{kind}[{i}].": one for kind in ("tables", "figures") for i, one in enumerate(spec.get(kind, []))}
        for place, holder in {"": spec, **inner}.items():
            for name, about in holder.get("datasets", {}).items():
                _check_dataset(about, f"--spec: {place}datasets.{name}")
    except DataError as error:
        wanted = f"`snakemake -n -p --forcerun {command}` prints calls with whole specifications"
        raise DataError(f"{error}. {wanted}") from None
    return spec


FORMS = {"cell": CELL, "table": TABLE, "report": REPORT, "choose": form_of(Choice)}


def _check_made_of(packed: dict[str, Any], folders: list[str]) -> None:
    """Refuse what is not a mark and the place of a partition for each folder (:func:`flatfed.runs.wanted.pack`)."""
    if len(packed["runs"]) != len(folders):
        raise DataError(f"--spec: made_of.runs: {len(packed['runs'])} for {len(folders)} run folders")
    for place, about in enumerate(packed["runs"]):
        match about:
            case [str() | None, int() as partition] if 0 <= partition < len(packed["partitions"]):
                continue
        wanted = f"a mark and the place of one of its {len(packed['partitions'])} partitions are wanted"
        raise DataError(f"--spec: made_of.runs[{place}]: {json.dumps(about)}; {wanted}")


def _check_dataset(about: dict[str, Any], where: str) -> None:
    check(about, DATASET, where)
    if len(about["shape"]) != 3:
        raise DataError(f"{where}.shape: {len(about['shape'])} numbers; channels, height and width are wanted")


def _figure(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the form of a figure of the kind that ``spec`` says it is."""
    kind = spec.get("kind")
    panel = {"title": str, **(PANELS.get(kind, {}) if isinstance(kind, str) else {})}
    return {
        **{"figure": str, "kind": Named("kind", tuple(PANELS)), "scale": SCALE, "title": str, "panels": Some(panel)},
        **dict.fromkeys(("paper?", "setting?", "caption?"), str),
        **{"datasets?": dict, "made_of?": MADE_OF},
        "across?": Named("axis", ("rounds", "communications")),
        **({"metric": str} if kind in ("sweep", "bars", "curves") else {"metric?": str}),
        **{"smooth?": Whole(0), "tuned?": TEXTS},
    }
