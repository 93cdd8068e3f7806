"""Loss surfaces to turn: a page of its own, or the fragment that a report puts under the picture.

Everything is in the page, the numbers and a short script that draws them on canvases; nothing is fetched. Ten surfaces
of 51 x 51 points are about 200 kB.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.ticker import MaxNLocator

from flatfed.tables.figures.sheets import Sheet, quantity, reading, sheets, why_empty
from flatfed.tables.figures.surface import COLOURS
from flatfed.tables.formats import html

#: Digits of a height in the page: more than can be seen or read off.
DIGITS = 5


def fragment(spec: dict[str, Any]) -> Markup:
    """Return the surfaces of a specification of kind "surface" as HTML without a page around it.

    :raises DataError: as :func:`flatfed.tables.figures.sheets.sheets`.
    """
    found, limits = sheets(spec)
    panels = [_panel(panel, place) for panel, place in zip(spec["panels"], found, strict=True)]
    data = {
        "limits": limits,
        "ticks": [float(tick) for tick in MaxNLocator(5).tick_values(*limits) if limits[0] <= tick <= limits[1]],
        "quantity": quantity(spec)[0].lower(),
        "colours": [[int(part) for part in colour[:3]] for colour in COLOURS(np.linspace(0, 1, 128), bytes=True)],
        "panels": panels,
    }
    # No "<" in the numbers' element: a label could otherwise end it.
    content = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return Markup(
        html.environment()
        .get_template("surface.html.j2")
        .render(
            panels=panels,
            two=any(len(panel["sheets"]) > 1 for panel in panels),
            caption=reading(spec, found, limits),
            data=Markup(content),
            script=Markup((html.TEMPLATES / "surface.js").read_text(encoding="utf-8")),
        )
    )


def page(spec: dict[str, Any]) -> str:
    """Return :func:`fragment` as a page of its own, headed as the picture."""
    scale = "Preview scale, not the paper's data: " if spec["scale"] == "preview" else ""
    title = f"{spec['figure']}: {scale}{spec['title']}"
    body = Markup("<h1>{}</h1>\n{}").format(title, fragment(spec))
    return html.environment().get_template("page.html.j2").render(title=title, style=html.style(), body=body) + "\n"


def _panel(panel: dict[str, Any], found: list[Sheet | None]) -> dict[str, Any]:
    """Return what the script needs of a panel; no surfaces where one is not made, or a run diverged."""
    if why_empty(found):
        return {"title": panel["title"], "sheets": [], "said": why_empty(found), "range": 1.0}
    made = [sheet for sheet in found if sheet is not None]
    said = [f"{word}: {sheet.label}" for word, sheet in zip(("surface", "mesh"), made, strict=False)]
    return {
        "title": panel["title"],
        "said": ", ".join(said) if len(made) > 1 else f"{made[0].label}, {_middle(made[0]):.4g} in the middle",
        "range": float(made[0].x[-1]),
        "sheets": [
            {
                "label": sheet.label,
                "n": len(sheet.x),
                "z": [float(f"{z:.{DIGITS}g}") if np.isfinite(z) else None for z in sheet.z.ravel()],
            }
            for sheet in made
        ],
    }


def _middle(sheet: Sheet) -> float:
    """Return the value at the model itself."""
    return float(sheet.z[len(sheet.x) // 2, len(sheet.y) // 2])
