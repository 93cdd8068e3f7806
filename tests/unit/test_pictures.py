"""Each picture in docs is made by a command."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))
import pictures

from flatfed import experiment
from flatfed.errors import DataError

ROOT = Path(__file__).resolve().parents[2]
EXP = experiment.load(ROOT)

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


def test_every_figure_is_there_once_and_whole_in_the_order_of_the_paper(tmp_path):
    for height, (name, colour) in enumerate(COLOURS.items(), start=1):
        Image.new("RGB", (400, 100 * height), colour).save(tmp_path / f"{name}.png")
    page = tmp_path / "docs/all.md"
    (tmp_path / "docs/all").mkdir(parents=True)
    (tmp_path / "docs/all/retired_F1.png").touch()
    pictures.figures(tmp_path, page, "preview")
    lines = page.read_text().splitlines()
    assert lines[2] == "preview" and "## fedsmoo2023" in lines
    assert [re.findall(r"<br>(\w+)", line) for line in lines if "<br>" in line] == [
        list(COLOURS)[:3],
        list(COLOURS)[3:],
    ]
    assert {path.stem for path in (tmp_path / "docs/all").iterdir()} == {*COLOURS}, "no picture of a retired figure"
    for height, (name, colour) in enumerate(COLOURS.items(), start=1):
        picture = np.asarray(Image.open(tmp_path / f"docs/all/{name}.png").convert("RGB"))
        assert picture.shape == (round(100 * height * pictures.WIDTH / 400), pictures.WIDTH, 3)
        assert (picture == colour).all()


def test_no_figures_and_damaged_ones_are_said(tmp_path):
    with pytest.raises(DataError, match=r"no figures \(\*\.png\)"):
        pictures.figures(tmp_path, tmp_path / "all.md")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG")
    with pytest.raises(DataError, match=r"broken\.png: not a picture"):
        pictures.figures(tmp_path, tmp_path / "out/all.md")
    assert not (tmp_path / "out").exists()
