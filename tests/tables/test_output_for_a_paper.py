"""`title`, `notes` and `highlight` of config.yaml: .tex tables and figures, and the files with all notes."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure

import drawn
from flatfed.plan.footnotes import Deviation, few
from small_results import flatfed

PAPER = ("--config", "title=none", "--config", "notes=none", "--config", "highlight=fedsam")


def test_few_lines_and_all_deviations():
    texts = ["first", "long " * 9, Deviation("kept"), "short", Deviation("kept too"), "last"]
    expected = ["first", "kept", "short", "kept too"]
    assert few(texts, lambda kept: sum(len(text.split()) for text in kept), 5) == expected
    assert few(texts, len, 0) == ["first", "kept", "kept too"] and few([], len) == []


@pytest.mark.parametrize("scale", ["paper", "preview"])
def test_a_table_without_title_and_notes(small_project, scale):
    flatfed("table", "own", "--scale", scale, "--out", f"for-a-paper/{scale}", *PAPER)
    files = Path(f"for-a-paper/{scale}")
    body = [line for line in (files / "own.tex").read_text().splitlines() if not line.startswith("%")]
    assert body[-2:] == [r"\bottomrule", r"\end{tabular}"] and any(r"\textbf{FedSAM} &" in line for line in body)
    assert ["Preview on Dots, 4 rounds" in line for line in body].count(True) == (scale == "preview")
    text = (files / "own.md").read_text()
    assert "| **FedSAM** " in text and "\n- " in text and "<strong>FedSAM</strong>" in (files / "own.html").read_text()


def test_a_figure_without_title_and_notes(small_project, monkeypatch):
    shown = {}
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: shown.update(text=drawn.text_of(figure)))
    flatfed("figure", "curves", "--scale", "paper", "--out", "for-a-paper", *PAPER)
    assert shown["text"].startswith("title: \n") and shown["text"].endswith("text: \n")
    assert "line #e69f00 dashes 4.5 1.4 from 0 width 3:" in shown["text"]
    notes = Path("for-a-paper/curves.txt").read_text()
    assert notes.startswith("Test accuracy on Pictures, 50% of 12 clients\n\nPaper: A. Author")
    assert "Not stated by the paper" in notes and "Untuned, FedSAM" in notes
