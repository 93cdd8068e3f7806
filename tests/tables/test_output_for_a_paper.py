""".tex tables and figures have neither title nor notes, which are in .md and .txt; `highlight` of config.yaml."""

from pathlib import Path

from matplotlib.figure import Figure

import drawn
from small_results import flatfed

PAPER = ("--config", "highlight=fedsam")


def test_a_table_without_title_and_notes(small_project):
    flatfed("table", "own", "--scale", "preview", "--out", "for-a-paper", *PAPER)
    files = Path("for-a-paper")
    body = [line for line in (files / "own.tex").read_text().splitlines() if not line.startswith("%")]
    assert body[-2:] == [r"\bottomrule", r"\end{tabular}"] and any(r"\textbf{FedSAM} &" in line for line in body)
    assert not any("Preview" in line for line in body)
    text = (files / "own.md").read_text()
    assert "| **FedSAM** " in text and "\n- " in text and "<strong>FedSAM</strong>" in (files / "own.html").read_text()


def test_a_figure_without_title_and_notes(small_project, monkeypatch):
    shown = {}
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: shown.update(text=drawn.text_of(figure)))
    flatfed("figure", "curves", "--scale", "paper", "--out", "for-a-paper", *PAPER)
    assert shown["text"].startswith("title: \n") and "text: " not in shown["text"]
    assert "line #e69f00 dashes 4.5 1.4 from 0 width 3:" in shown["text"]
    notes = Path("for-a-paper/curves.txt").read_text()
    assert notes.startswith("Test accuracy on Pictures, 50% of 12 clients\n\nPaper: A. Author")
    assert "Not stated by the paper" in notes
