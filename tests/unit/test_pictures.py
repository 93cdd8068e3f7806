"""Pictures in docs are of today: each holds the digest of what it shows, and is made by a command."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))
import pictures

from flatfed import experiment, forms
from flatfed.errors import DataError
from flatfed.files import digest_json

ROOT = Path(__file__).resolve().parents[2]
EXP = experiment.load(ROOT)

#: Some figures, each of one colour, as the palette of the page has it.
COLOURS = {
    "fedsmoo2023_F2": (200, 0, 0),
    "fedsmoo2023_F3": (0, 160, 0),
    "fedsmoo2023_F9": (0, 0, 200),
    "fedsmoo2023_F10": (120, 60, 0),
}


def test_the_page_of_figures_is_not_older_than_what_it_shows():
    drawn = json.loads(pictures.drawn_from(pictures.FIGURES) or "{}")
    today = {name: digest_json(forms.plain(EXP.figure("preview", name).spec)) for name in EXP.figures}
    older = [name for name in {**today, **drawn} if drawn.get(name) != today.get(name)]
    assert not older, (
        f"docs/figures.png is older than {', '.join(older)}: snakemake --cores all everything; make figures-page"
    )


def test_the_picture_of_the_report_is_not_older_than_what_it_shows():
    older = "docs/report.png is older than the report of the preview: make quickstart; make report-page"
    assert pictures.drawn_from(pictures.REPORT) == pictures.report_shows(), older


def test_every_picture_of_the_docs_is_made_by_a_command():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    names = {path.stem for path in (ROOT / "docs").glob("*.png")}
    assert names == {"figures", "report", "results", "results-curves"}
    assert all(f"\n{name}-page: " in makefile for name in names - {"results-curves"})


def test_every_figure_is_there_once_and_whole_in_the_order_of_the_paper(tmp_path):
    for height, (name, colour) in enumerate(COLOURS.items(), start=1):
        Image.new("RGB", (400, 100 * height), colour).save(tmp_path / f"{name}.png")
    pictures.figures(tmp_path, tmp_path / "page/all.png", "preview")
    page = np.asarray(Image.open(tmp_path / "page/all.png").convert("RGB"))
    corners = []
    for height, colour in enumerate(COLOURS.values(), start=1):
        rows, columns = np.nonzero((page == colour).all(axis=2))
        expected = (pictures.WIDTH, round(100 * height * pictures.WIDTH / 400))
        assert (columns.max() - columns.min() + 1, rows.max() - rows.min() + 1) == expected
        assert len(rows) == expected[0] * expected[1], "nothing lies over it"
        corners.append((rows.min(), columns.min()))
    assert corners[:3] == sorted(corners[:3]), "F2, F3, F9 from left to right"
    assert corners[3][1] == corners[0][1] and corners[3][0] > corners[0][0], "F10 under the shortest column, that of F2"
    assert (page[: pictures.HEAD, : pictures.WIDTH] == 0).all(axis=2).any(), "the head line"


def test_no_figures_and_damaged_ones_are_said(tmp_path):
    with pytest.raises(DataError, match=r"no figures \(\*\.png\)"):
        pictures.figures(tmp_path, tmp_path / "all.png")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG")
    with pytest.raises(DataError, match=r"broken\.png: not a picture"):
        pictures.figures(tmp_path, tmp_path / "out/all.png")
    assert not (tmp_path / "out").exists()


def test_a_picture_that_holds_nothing_is_no_error(tmp_path):
    for name in ("a_F1", "a_F2"):
        Image.new("RGB", (400, 100), "red").save(tmp_path / f"{name}.png")
    pictures.figures(tmp_path, tmp_path / "all/page.png")
    assert json.loads(pictures.drawn_from(tmp_path / "all/page.png")) == {"a_F1": None, "a_F2": None}
    assert pictures.drawn_from(tmp_path / "a_F1.png") is None
    with pytest.raises(FileNotFoundError):
        pictures.drawn_from(tmp_path / "none.png")
