"""Tables of one's own: without a preview, and without printed numbers beside them."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from own_files import load, photos, put

import made
from flatfed.errors import ConfigError
from flatfed.experiment import SCALES, cell_specs, report_spec, run_specs, scales, table_specs
from flatfed.tables import blocks, report
from flatfed.tables.filled_table import FilledTable
from flatfed.tables.write import FORMATS
from flatfed.workflow import requested

PAPER = "results/paper/tables/photos.md"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with photos and one of tables."""
    photos(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_is_no_preview_and_whoever_asks_is_told_what_to_ask_for():
    found = load(tables=["photos", {"table": "fedsmoo2023_T1", "columns": ["cifar10-dir0.6-100"]}], figures=[])
    for ask in (
        lambda: cell_specs.cells(found, "preview", "photos"),
        lambda: table_specs.table_spec(found, "preview", "photos"),
    ):
        with pytest.raises(ConfigError, match=rf"results/preview/tables/photos\.md: .*own/photos.*request {PAPER}"):
            ask()
    run = "runs/photos/skewed/fedavg/seed1/run.json"
    with pytest.raises(ConfigError, match=f"results/preview/{run}: .* request results/paper/{run}"):
        run_specs.run(found, "preview", "photos", "skewed", "fedavg", 1)
    with pytest.raises(ConfigError, match=r"request results/paper/partitions/photos/skewed/seed1\.npz"):
        run_specs.partition_spec(found, "preview", "photos", "skewed", 1)
    with pytest.raises(ConfigError, match=r"request results/paper/tables/photos\.md"):
        cell_specs.cell(found, "preview", "photos", "skewed", "fedavg")


def test_selections_and_everything_leave_it_out_and_say_so():
    found = load(tables=["photos", {"table": "fedsmoo2023_T1", "columns": ["cifar10-dir0.6-100"]}], figures=[])
    assert [name for name, _ in scales.existing(found, found.scale, found.requested).tables] == ["fedsmoo2023_T1"]
    assert [name for name, _ in scales.existing(found, "paper", found.requested).tables] == ["photos", "fedsmoo2023_T1"]
    (line,) = scales.left_out(found, found.scale, found.requested)
    assert line.startswith("Left out: results/preview/tables/photos.md") and line.endswith(PAPER)
    assert scales.left_out(found, "paper", found.requested) == []
    assert report_spec.specification(found, "preview").left_out == [line]
    only = {scale: {n for n, t in found.tables.items() if t.settings.get("scales") == [scale]} for scale in SCALES}
    existing = {scale: {name for name, _ in scales.all_at(found, scale).tables} for scale in SCALES}
    assert existing["paper"] == {*found.tables} - only["preview"]
    assert existing["preview"] == {*found.tables} - only["paper"] - {"photos"}
    assert "effects" in only["preview"] and "effects_cnn" in only["paper"]
    asked = requested.files(found)
    assert PAPER in asked and PAPER.replace("paper", "preview") not in asked


def test_a_protocol_with_a_preview_has_one():
    preview = {"dataset": "digits", "clients_times": 1, "participation_times": 1, "rounds": 2}
    preview["model"] = {"name": "cnn_tiny"}
    found = load(change=put("protocols", "photos", "preview", value=preview), tables=["photos"])
    assert (
        scales.left_out(found, found.scale, found.requested) == []
        and len(cell_specs.cells(found, "preview", "photos")) == 4
    )
    title = blocks.typeset(made.filled("none", table_specs.table_spec(found, "preview", "photos"))).title
    assert title == "Preview scale: Four algorithms on my photographs: digits, 10 clients"


def test_a_table_without_reference_says_nothing_of_papers(here):
    found = load(change=put("rows", value=["fedavg", "fedcm", "fedlesam"]))
    layout = table_specs.table_spec(found, "paper", "photos")
    specs = cell_specs.cells(found, "paper", "photos")
    cells = {spec.row: replace(made.cell([0.4, 0.6]), column=spec.column, row=spec.row) for spec in specs}
    table = blocks.typeset(FilledTable(layout, {layout.columns[0].id: cells}))
    assert table.blocks[0].under == ({"ours": "n = 2"},)
    for ending, render in FORMATS.items():
        text = render(table).rpartition("</style>")[2].replace('class="ours', "")
        if ending == "csv":
            rows = list(csv.DictReader(io.StringIO(text)))
            assert [row["value"] for row in rows] == ["0.5"] * 3
            assert not {"paper_value", "difference", "compare", "agreement"} & {*rows[0]}
            text = ",".join(rows[0]) + "".join(row["headers"] for row in rows)
        assert "paper" not in text.lower() and "ours" not in text.lower(), ending
        assert ending == "csv" or "50.00" in text


def test_a_report_of_ones_own_tables_says_nothing_of_papers(here):
    found = load(tables=["photos"], scale="paper")
    report.make(report_spec.specification(found, "paper"), here / "report.html")
    text = (here / "report.html").read_text().rpartition("</style>")[2]
    shown, configuration = text.split('<h2 id="configuration">')
    assert "paper" not in shown.replace("results/paper", "").lower() and "Errata" not in configuration
    assert "Every protocol at its full size" in shown


def test_a_report_names_what_was_left_out(here):
    found = load(tables=["photos", {"table": "fedsmoo2023_T1", "columns": ["cifar10-dir0.6-100"]}])
    report.make(report_spec.specification(found, "preview"), here / "report.html")
    text = (here / "report.html").read_text()
    assert f"Left out: {PAPER.replace('paper', 'preview')}" in text and 'href="../errata.html"' in text


def test_what_is_not_chosen_of_a_grid_is_said_without_a_paper():
    tune = {"seed": 1, "validation": 0.5, "grids": {"fedsam": {"rho": [0.01, 0.1]}}}
    change = put("protocols", "photos", "tune", value=tune)

    def fewer(content):
        change(content)
        content["splits"]["skewed"]["clients"] = 3

    notes = table_specs.table_spec(load(change=fewer), "paper", "photos").notes
    assert len(notes) == 1 and notes[0].startswith("Untuned, FedSAM: rho is ") and "out of 0.01, 0.1" in notes[0]
