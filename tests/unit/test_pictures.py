"""Each picture in docs is made by a command."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))
import pictures

from shipped import EXP

ROOT = Path(__file__).resolve().parents[2]

#: Some figures, each of one colour.
COLOURS = {
    "fedsmoo2023_F2": (200, 0, 0),
    "fedsmoo2023_F3": (0, 160, 0),
    "fedsmoo2023_F9": (0, 0, 200),
    "fedsmoo2023_F10": (120, 60, 0),
}


def test_the_page_of_figures_shows_each_figure():
    assert {path.stem for path in pictures.FIGURES.with_suffix("").glob("*.png")} == {*EXP.figures}


def test_every_picture_of_the_docs_is_made_by_a_command():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    names = {path.stem for path in (ROOT / "docs").glob("*.png")}
    assert names == {"report", "results", "results-curves"}
    assert all(f"\n{name}-page: " in makefile for name in {"figures", *names} - {"results-curves"})


def test_every_thumbnail_links_to_its_figure_and_all_figures_take_less_than_4_mb():
    text, folder = pictures.FIGURES.read_text(encoding="utf-8"), pictures.FIGURES.with_suffix("")
    paths = sorted(folder.glob("*.png"), key=pictures._order)
    assert re.findall(r"\]\((figures/[^)]+)\)", text) == [f"figures/{path.name}" for path in paths]
    assert re.findall(r'<img src="([^"]+)"', text) == [f"figures/{path.name}" for path in paths]
    assert sum(path.stat().st_size for path in paths) < 4e6
