"""Pictures in docs are of today: each holds the digest of what it shows, and is made by a command."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from PIL import Image

from flatfed import experiment, forms
from flatfed.figures import gallery
from flatfed.files import digest_json

ROOT = Path(__file__).resolve().parents[2]
EXP = experiment.load(ROOT)


def test_the_page_of_figures_is_not_older_than_what_it_shows():
    drawn = json.loads(gallery.drawn_from(ROOT / "docs/figures.png") or "{}")
    today = {name: digest_json(forms.plain(EXP.figure("preview", name).spec)) for name in EXP.figures}
    older = [name for name in {**today, **drawn} if drawn.get(name) != today.get(name)]
    assert not older, (
        f"docs/figures.png is older than {', '.join(older)}: snakemake --cores all everything; make figures-page"
    )


def test_the_picture_of_the_report_is_not_older_than_what_it_shows():
    path = ROOT / "docs/picture_of_report.py"
    script = importlib.util.module_from_spec(spec := importlib.util.spec_from_file_location(path.stem, path))
    spec.loader.exec_module(script)
    older = "docs/report.png is older than the report of the preview: make quickstart; make report-page"
    assert gallery.drawn_from(script.PICTURE) == script.shows(), older


def test_the_picture_of_the_results_is_of_their_page():
    page = digest_json((ROOT / "docs/results.md").read_text(encoding="utf-8").replace("(results.png)", "()"))
    assert gallery.drawn_from(ROOT / "docs/results.png") == page, "docs/results.png is older: make results-page"


def test_every_picture_of_the_docs_is_made_by_a_command():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    made = {"figures.png": "figures-page", "report.png": "report-page", "results.png": "results-page"}
    assert {path.name for path in (ROOT / "docs").glob("*.png")} == set(made)
    assert all(f"\n{target}: " in makefile for target in made.values())


def test_a_picture_that_holds_nothing_is_no_error(tmp_path):
    for name in ("a_F1", "a_F2"):
        Image.new("RGB", (400, 100), "red").save(tmp_path / f"{name}.png")
    gallery.make(tmp_path, tmp_path / "all/page.png")
    assert json.loads(gallery.drawn_from(tmp_path / "all/page.png")) == {"a_F1": None, "a_F2": None}
    assert gallery.drawn_from(tmp_path / "a_F1.png") is None
    with pytest.raises(FileNotFoundError):
        gallery.drawn_from(tmp_path / "none.png")
