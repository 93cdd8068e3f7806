"""A preview shows no number of a paper, and its titles and headings are true there."""

import json
from pathlib import Path

import pytest

from flatfed.plan import at_scale
from shipped import EXP
from small_results import flatfed

LABELS = {dataset.label for dataset in EXP.catalog.datasets.values() if "digits" not in dataset.label}
PAPERS = [*LABELS, "100 clients", "200 clients", "acc = 68%", "acc = 74%"]


def test_no_file_of_a_preview_has_a_number_of_the_paper(small_project):
    """The paper prints 79.52 ± 0.13."""
    flatfed("table", "accuracy", "--scale", "preview", "--out", "preview")
    flatfed("cell", "accuracy", "dir0.6", "fedavg", "--scale", "preview", "--out", "preview/cell.json")
    config = ("--config", "tables=[accuracy]", "--config", "figures=[]")
    flatfed("report", "--scale", "preview", *config, "--out", "preview/report.html")
    cell = json.loads(Path("preview/cell.json").read_text())
    assert (cell["paper_value"], cell["paper_spread"], cell["difference"], cell["paper_note"]) == (None, None, None, "")
    texts = {path.name: path.read_text() for path in Path("preview").iterdir()}
    assert texts.keys() >= {"accuracy.csv", "accuracy.md", "accuracy.tex", "accuracy.html", "cell.json", "report.html"}
    assert not [name for name, text in texts.items() if "79.52" in text or "0.7952" in text]
    assert "### Preview on Dots, 4 rounds: A. Author & B. Author, Conf. 2026, Table 1\n" in texts["accuracy.md"]
    assert "\nAlgorithm (preview) & " in texts["accuracy.tex"]
    assert flatfed("verify", "accuracy", "--scale", "preview").endswith("a preview is not compared with the paper\n")


@pytest.mark.parametrize("name", EXP.all_at("preview").tables)
def test_headings_of_a_table(name):
    table = at_scale.table(EXP, "preview", name)
    assert not table.printed and not table.paper
    headings = [text for column in table.columns.values() for text in column.headers]
    assert not [words for words in PAPERS for text in headings if words in text]
    assert {column.part for column in table.columns.values()} == {None}
    trained = [column for column in table.columns.values() if len(column.splits) == 1]
    assert all(column.split in ", ".join(column.headers) for column in trained)


@pytest.mark.parametrize("name", EXP.all_at("preview").figures)
def test_titles_of_panels(name):
    figure = at_scale.figure(EXP, "preview", name)
    assert all(" (preview on digits" in panel.title for panel in figure.panels)


def test_notes_name_the_parameters_of_a_preview():
    assert at_scale.table(EXP, "preview", "fedsmoo2023_T1").row_notes[0] == (
        "Parameters of the preview of fedsmoo-cifar10 and fedsmoo-cifar100 alone. "
        "FedSAM: rho = 0.1 (paper scale: 0.01); MoFedSAM: rho = 0.05 (paper scale: 0.01)."
    )
    assert "FedSAM: rho = 0.1 (" in at_scale.figure(EXP, "preview", "two_splits").row_notes[-1]
    assert not at_scale.table(EXP, "paper", "fedsmoo2023_T1").row_notes
    assert not at_scale.table(EXP, "preview", "effects").row_notes, "its numbers are published with the paper's radii"
