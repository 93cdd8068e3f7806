""".tex tables have neither title nor notes, which are in .md; `highlight` of config.yaml."""

from pathlib import Path

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
