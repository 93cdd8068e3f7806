"""The report: one page that says what was made, with what, and what is missing."""

from __future__ import annotations

import base64
import html.parser
import json
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from jinja2 import Environment, StrictUndefined

import made
from flatfed import __version__
from flatfed.engine.job.machine import machine
from flatfed.errors import DataError
from flatfed.experiment.panels import DrawnPanel, FigureSpec, Mark
from flatfed.experiment.report_spec import ReportFigure, ReportSpec, ReportTable
from flatfed.figures import interactive
from flatfed.runs import record as records
from flatfed.runs.paths import Paths
from flatfed.tables import report, reported_runs

ROOT = Path(__file__).parents[2]

#: As the trainer says it, of another CPU.
OTHER = {"processor": "A <fast> CPU", "instructions": ["avx2", "amx_bf16"], "gpu": "unused GPU"}
HOST = {name: OTHER.get(name, told) for name, told in machine(torch.device("cpu"), 1)["host"].items()}


def make_run(
    root: Path, algorithm: str, seed: int, done: int = 40, diverged: int | None = None, rho: float = 0.1
) -> str:
    folder = root / "runs" / "fedsmoo-cifar10" / "dir0.6-100" / algorithm / f"seed{seed}"
    description = {
        "format": 1, "scale": "preview", "dataset": {"name": "digits"}, "partition": {"alpha": 0.6},
        "sampling": {"fraction": 0.1}, "rounds": 40, "learning_rate": 0.1, "model": {"name": "cnn_tiny", "options": {}},
        "update": {"name": algorithm, "params": {"rho": rho}},
    }  # fmt: skip
    about = {
        "description": description, "dataset_digest": "d" * 64, "libraries": {"torch": "2.14", "python": "3.11"},
        "device": "cpu", "executor": "stacked", "precision": "float32", "seconds": 6.0, "peak_memory_bytes": 3 * 2**20,
        "rounds_done": done, "diverged_at": diverged, "host": HOST, "finished": "2026-11-22T10:00:00+00:00",
    }  # fmt: skip
    return made.run(folder, {"round": [done], "test_accuracy": [0.5]}, **about)


def specify(tmp_path: Path, folders: list[str], scale: str = "preview", seeds: int = 0) -> ReportSpec:
    """Return a report on the runs in ``folders``; the only cell is of the first ``seeds`` of them."""
    layout = made.layout(
        **{"table": "fedsmoo2023_T1", "scale": scale, "title": "Accuracy & <more>", "metric": "Test accuracy"},
        **{"unit": "percent", "rows": [{"id": "fedavg", "label": "FedAvg"}]},
        columns=[{"id": "a", "headers": ["u = 0.6"]}],
    )
    cell = made.cell_spec(
        **{"table": "fedsmoo2023_T1", "column": "a", "row": "fedavg", "scale": scale, "metric": "test_accuracy"},
        **{"unit": "percent", "rounds": 40, "seeds": range(1, seeds + 1) or [1]},
        runs=folders[:seeds] or folders[-1:] or [str(tmp_path / "p/s/a/seed1")],
        paper={"value": 79.52, "decimals": 2},
    )
    (tmp_path / "f.png").write_bytes(b"\x89PNG picture")
    mark = Mark(label="FedAvg", by_seed=[[made.requested(folder)] for folder in folders])
    said = {"kind": "curves", "scale": scale, "panels": [DrawnPanel(title="P", marks=[mark])]}
    said |= {"setting": "digits, 30 clients", "paper": "Sun et al., Figure 7"}
    curves = FigureSpec(figure="fedsmoo2023_F7", title="Curves", caption="Rise & fall.", **said)
    figures = [
        ReportFigure(curves, str(tmp_path / "f.png")),
        ReportFigure(replace(curves, figure="fedsmoo2023_F5", title="Map"), str(tmp_path / "absent.png")),
    ]
    table = ReportTable(layout, [cell], Paths(str(tmp_path)).table("preview", layout.table))
    return ReportSpec(scale, [table], figures, {"scale": "preview", "data": {"cifar10": "<path>"}}, [])


@pytest.fixture
def page(tmp_path):
    """A report over a finished, a diverged, an unfinished and a missing run; a cell and a picture are missing."""
    folders = [make_run(tmp_path, "fedavg", 1), make_run(tmp_path, "fedcm", 1, done=12, diverged=12, rho=0.2)]
    folders += [
        make_run(tmp_path, "fedavg", 2, done=20),
        str(tmp_path / "runs/fedsmoo-cifar10/dir0.6-100/fedavg/seed3"),
    ]
    report.make(specify(tmp_path, folders), tmp_path / "report.html")
    return (tmp_path / "report.html").read_text()


def plain(page: str) -> str:
    """Return the page's text, tags dropped, entities resolved, space collapsed."""
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.S)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", body)))


def test_scale_and_counts_stand_at_the_top(page):
    text = plain(page)
    assert "FlatFed report: preview scale" in text and "Preview scale." in text
    assert "1: 1 missing" in text
    assert "4: 1 missing, 1 finished, 1 diverged, 1 unfinished" in text
    assert "0.3 min, summed over runs" in text  # three runs of six seconds
    assert f"Trained 2026-11-22, {HOST['processor']}" in text and f"FlatFed {__version__}" in text


def test_runs_are_listed_with_their_cost_and_files(page):
    text = plain(page)
    assert "fedavg dir0.6-100, fedsmoo-cifar10: 3 seeds, 12.0 s" in text
    assert "1 50.00 40 6.0 0.150 3 cpu stacked, float32 finished record , lines" in text
    assert "1 50.00 12 6.0 0.500 3 cpu stacked, float32 diverged in round 12 record" in text
    assert "3 missing" in text
    folder = "runs/fedsmoo-cifar10/dir0.6-100/fedavg/seed1"
    assert f'href="{folder}/run.json"' in page and f'href="{folder}/metrics.csv"' in page
    assert "seed3/run.json" not in page, "there is none"


def test_a_number_leads_to_its_run_and_shows_its_seeds(tmp_path):
    """Two seeds of one row, evaluated twice: their curve, their lines, the settings and the files of the table."""
    folders = [make_run(tmp_path, "fedavg", seed) for seed in (1, 2)]
    for folder, ends in zip(folders, (0.9, 0.93), strict=True):
        made.run(
            folder,
            {"round": [20, 40], "test_accuracy": [0.5, ends]},
            **vars(records.read_finished(folder)),
        )
    spec = specify(tmp_path, folders, seeds=2)
    plotted = []
    report.make(spec, tmp_path / "preview/report.html", lambda *plot: plotted.append(plot) or "<b>the curves</b>")
    page = (tmp_path / "preview/report.html").read_text()
    ((accuracy, curves),) = plotted
    (label, accuracies) = curves["fedavg"]
    assert (accuracy, label) == ("test accuracy", "FedAvg") and "<b>the curves</b>" in page
    assert accuracies.to_dict() == {1: {20: 0.5, 40: 0.9}, 2: {20: 0.5, 40: 0.93}}
    place = "run/fedsmoo-cifar10/dir0.6-100/fedavg"
    assert (
        f'title="seed 1: 90.00, seed 2: 93.00" data-paper="79.52"><a href="#{place}">91.50 ± 2.12</a></td>'
        in " ".join(page.split()).replace("> <", "><")
    )
    assert f'<details class="run" id="{place}">' in page
    assert "79.52" not in plain(page), "the switch alone shows the paper's number"
    assert "Last test accuracy, %" in page and "<td>90.00</td>" in page and "<td>93.00</td>" in page
    assert 'href="#settings/fedsmoo-cifar10"' in page and 'href="../runs/fedsmoo-cifar10/' in page
    for ending in ("csv", "tex", "md", "html"):
        assert f'href="tables/fedsmoo2023_T1.{ending}"' in page
    assert 'href="../f.pdf"' in page and 'href="../errata.html"' in page


def test_settings_separate_what_is_common_from_what_is_an_algorithms_own(page):
    text = plain(page)
    assert "learning_rate 0.1" in text and "rounds 40" in text
    assert "fedcm update.name fedcm update.params.rho 0.2" in text


def test_versions_hosts_and_configuration_are_there_and_escaped(page):
    text = plain(page)
    assert "3 runs: A <fast> CPU, with avx2 amx_bf16, python 3.11, torch 2.14" in text, (
        "the GPU of a run on the CPU is not named"
    )
    assert "digits: SHA-256 " + "d" * 64 in text
    assert "cifar10: <path>" in text and "<path>" not in page and "<fast>" not in page and "<more>" not in page


def test_pictures_are_embedded_and_absent_ones_named(page):
    data = base64.b64encode(b"\x89PNG picture").decode()
    assert f'src="data:image/png;base64,{data}"' in page
    assert "absent.png does not exist yet" in page
    assert not re.findall(r'src="(?!data:)|href="[a-z]+:', page), "the page fetches nothing"


def test_a_figure_says_what_the_paper_shows_and_what_was_trained_here(page):
    assert "fedsmoo2023_F7: Curves. Rise & fall." in plain(page)
    assert 'alt="Curves. Paper: Sun et al., Figure 7. Here: digits, 30 clients."' in page


def test_at_preview_scale_a_switch_shows_the_papers_numbers(page, tmp_path):
    assert '<input type="checkbox" id="show-paper"><label for="show-paper">Show the papers' in page
    assert '<td class="paper">' not in page and "paper</th>" not in page
    (tmp_path / "paper").mkdir()
    report.make(specify(tmp_path, [], "paper"), tmp_path / "paper/report.html")
    page = (tmp_path / "paper/report.html").read_text()
    assert 'id="show-paper"' not in page and '<td class="paper">' in page


def test_the_page_stays_under_5_mb_and_links_to_the_pictures_that_do_not_fit(tmp_path):
    spec = specify(tmp_path, [])
    pictures = []
    for number, size in enumerate((3_000_000, 2_000_000, 1_000)):
        path = tmp_path / f"{number}.png"
        path.write_bytes(b"\x89PNG" + bytes(size))
        pictures.append(ReportFigure(replace(spec.figures[0].spec, figure=f"f_F{number}"), str(path)))
    report.make(replace(spec, figures=pictures), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_bytes()
    assert len(page) < 5e6
    sources = re.findall(rb'src="([^"]{12})', page)
    assert sources == [b"data:image/p", b"data:image/p"] and b'src="1.png"' in page


def test_the_curves_need_no_network_and_little_room():
    curves = {"fedavg": ("FedAvg </script>", pd.DataFrame({1: {1: 0.25, 2: 0.75}, 2: {1: 0.5}}))}
    text = interactive.embedded("test accuracy", curves)
    assert len(text) < 1.5e6 and not re.findall(r"<(script|link)[^>]+(src|href)=", text)
    script = text.rpartition("<script>")[2]
    assert "FedAvg \\u003c/script>" in script and script.count("</script>") == 1
    drawn = json.loads(script.removeprefix("Bokeh.embed.embed_item(").removesuffix(");</script>"))
    assert drawn["target_id"] == "curves" and '"click_policy": "hide"' in json.dumps(drawn)
    assert {"HoverTool", "BoxZoomTool", "ResetTool"} <= set(re.findall(r'"name": "(\w+Tool)"', json.dumps(drawn)))


def test_every_link_has_its_place(page):
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(re.findall(r'id="([^"]+)"', page))


class Balanced(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in {"meta", "img", "input"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_nests(page):
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []


def test_an_empty_report_is_a_report(tmp_path):
    report.make(ReportSpec("paper", [], [], {}, []), tmp_path / "report.html")
    text = plain((tmp_path / "report.html").read_text())
    assert "The configuration names no table" in text and "No run exists yet" in text and "Preview" not in text


def test_damaged_runs_are_named(tmp_path):
    folder = Path(make_run(tmp_path, "fedavg", 1))
    (folder / "run.json").write_text("[]")
    with pytest.raises(DataError, match=r"run\.json: not the record of a run"):
        report.make(specify(tmp_path, [str(folder)]), tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_flattening():
    tree = {"a": 1, "b": {"c": "x", "d": {"e": None}}, "f": [1, 0.5]}
    assert reported_runs.flatten(tree) == {"a": "1", "b.c": "x", "b.d.e": "null", "f": "[1, 0.5]"}


class Snakemake:
    """What Snakemake gives a caption."""

    def __init__(self, scale: str, kind: str):
        self.wildcards = type("W", (), {"scale": scale, "table": "fedsmoo2023_T1", "figure": "fedsmoo2023_F7"})
        caption = [kind, "digits {digits}, 30 clients; turned {t}"]
        self.params = type("P", (), {"caption": caption, "printed": True})
        self.config = {"scale": scale}


@pytest.mark.parametrize("scale", ["preview", "paper"])
@pytest.mark.parametrize("kind", ["curves", "partition", "surface", "sweep"])
def test_captions_tell_the_truth_about_the_scale_and_kind(scale, kind):
    said = {}
    for name in ("workflow", "table", "figure"):
        text = (ROOT / "workflow" / "report" / f"{name}.rst").read_text()
        said[name] = Environment(undefined=StrictUndefined).from_string(text).render(snakemake=Snakemake(scale, kind))
    assert ("preview scale" in said["workflow"]) == (scale == "preview")
    assert ("difference is taken" in said["table"]) == (scale == "preview")
    assert ("not the paper's" in said["figure"]) == (scale == "preview")
    assert ("curves over communication rounds" in said["figure"]) == (kind == "curves")
    assert ("the loss around the models" in said["figure"]) == (kind == "surface")
    assert "digits, 30 clients; turned." in said["figure"]


def test_the_caption_of_a_table_of_ones_own_says_nothing_of_papers():
    text = (ROOT / "workflow" / "report" / "table.rst").read_text()
    about = Snakemake("paper", "results")
    about.params.printed = False
    said = Environment(undefined=StrictUndefined).from_string(text).render(snakemake=about)
    assert "paper" not in said and "mean ± sample standard deviation over seeds.\nCells that are" in said
