"""Tables of one's own: without a preview, and without printed numbers beside them."""

from __future__ import annotations

import pytest

import made
from flatfed.errors import ConfigError
from flatfed.plan import SCALES, at_scale, run_specs
from flatfed.snakemake_support import requested
from flatfed.tables import report
from own_files import load, photos, put

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
        lambda: made.first_numbers(found, "preview", "photos"),
        lambda: at_scale.table(found, "preview", "photos"),
    ):
        with pytest.raises(ConfigError, match=rf"results/preview/tables/photos\.md: .*own/photos.*request {PAPER}"):
            ask()
    run = "runs/photos/skewed/fedavg/seed1/run.json"
    with pytest.raises(ConfigError, match=f"results/preview/{run}: .* request results/paper/{run}"):
        run_specs.run(found, "preview", "photos", "skewed", "fedavg", 1)
    with pytest.raises(ConfigError, match=r"request results/paper/partitions/photos/skewed/seed1\.npz"):
        run_specs.partition_spec(found, "preview", "photos", "skewed", 1)
    with pytest.raises(ConfigError, match=r"request results/paper/tables/photos\.md"):
        made.first_number(found, "preview", "photos", "skewed", "fedavg")


def test_selections_and_everything_leave_it_out_and_say_so():
    found = load(tables=["photos", {"table": "fedsmoo2023_T1", "columns": ["cifar10-dir0.6-100"]}], figures=[])
    assert [*found.existing(found.scale, found.requested).tables] == ["fedsmoo2023_T1"]
    assert [*found.existing("paper", found.requested).tables] == ["photos", "fedsmoo2023_T1"]
    (line,) = found.left_out(found.scale, found.requested)
    assert line.startswith("Left out: results/preview/tables/photos.md") and line.endswith(PAPER)
    assert found.left_out("paper", found.requested) == []
    assert at_scale.report(found, "preview").left_out == [line]
    only = {scale: {n for n, t in found.tables.items() if t.document.scales == [scale]} for scale in SCALES}
    existing = {scale: {*found.all_at(scale).tables} for scale in SCALES}
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
        found.left_out(found.scale, found.requested) == []
        and len(made.first_numbers(found, "preview", "photos")) == 4
    )
    spec = at_scale.table(found, "preview", "photos")
    scale = "Preview scale, digits, 2 rounds (title and headings as at paper scale)"
    assert spec.title == f"{scale}: Four algorithms on my photographs"


def test_a_report_names_what_was_left_out(here):
    found = load(tables=["photos", {"table": "fedsmoo2023_T1", "columns": ["cifar10-dir0.6-100"]}])
    report.make(at_scale.report(found, "preview"), here / "report.html")
    text = (here / "report.html").read_text()
    assert f"Left out: {PAPER.replace('paper', 'preview')}" in text and 'href="../errata.html"' in text
