"""Every figure of the papers, drawn from made-up runs: units, legend, one colour per algorithm, what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex

from flatfed import experiment
from flatfed.tables import figures
from flatfed.tables.figures import palette
from flatfed.tables.figures.paper import PROBES, QUANTITIES

matplotlib.use("Agg")

ROOT = Path(__file__).parents[2]
EXP = experiment.load(ROOT)

#: Kinds that show trained runs through the columns of metrics.csv or the probes of run.json, and kinds of partitions.
TRAINED, DEALT = ("curves", "sweep", "bars"), ("partition", "histogram")
DRAWN = [name for name, found in EXP.figures.items() if found.kind in TRAINED + DEALT]


def make_runs(figure: dict, root: Path) -> None:
    """Write metrics.csv and run.json of every run of a figure, and its partitions, under ``root``."""
    for place, run in enumerate(figure["runs"]):
        folder = root / run
        folder.mkdir(parents=True)
        protocol = EXP.catalog.protocols[run.split("/")[3]]
        rounds = protocol.scales["preview"]["rounds"]
        lines = [",".join(("round", *QUANTITIES))]
        for number in range(1, rounds + 1):
            lines.append(",".join([str(number), *[f"{number / rounds * (0.5 + place / 1000):.4f}"] * len(QUANTITIES)]))
        (folder / "metrics.csv").write_text("\n".join(lines) + "\n")
        probes = [{"round": number, **dict.fromkeys(PROBES, 0.5 + place / 100)} for number in (0, rounds)]
        about = {"rounds_done": rounds, "diverged_at": None, "probes": probes}
        (folder / "run.json").write_text(json.dumps(about))
    for path in figure["inputs"]:
        if path.endswith(".npz"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            np.savez(root / path, class_counts=np.arange(300).reshape(30, 10) % 7)


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_is_fit_to_print(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = EXP.figure("preview", name)
    make_runs(found, tmp_path)
    spec = found["spec"]
    figure = figures.KINDS[spec["kind"]](spec)
    try:
        shown = [axis for axis in figure.axes if axis.get_visible()]
        for axis in shown[: len(spec["panels"])]:
            assert axis.get_ylabel(), "what is on the vertical axis, and its unit"
            assert axis.get_xlabel() or spec["kind"] == "bars"
        said = " ".join(text.get_text() for text in figure.texts)
        assert spec["paper"] in said.replace("\n", " ") and "missing" not in said
        if spec["kind"] in TRAINED:
            check_lines(spec, figure)
    finally:
        pyplot.close(figure)


def check_lines(spec: dict, figure) -> None:
    """Check that the legend names every line once, and that no colour stands for two algorithms."""
    entries = [
        entry for panel in spec["panels"] for key in ("series", "levels", "bars") for entry in panel.get(key, [])
    ]
    legends = figure.legends or [axis.get_legend() for axis in figure.axes if axis.get_visible()]
    named = [text.get_text() for legend in legends for text in legend.get_texts()]
    wanted = {entry["label"] for entry in entries}
    assert set(named) == wanted and all("{" not in label for label in wanted)
    assert len(named) == len(wanted) or not figure.legends
    colours = {palette.STYLES[entry["algorithm"].partition("~")[0]][0]: entry["algorithm"] for entry in entries}
    bases = {entry["algorithm"].partition("~")[0] for entry in entries}
    assert len(colours) == len(bases)
    handles = [handle for legend in legends for handle in legend.legend_handles]
    for entry, handle in zip(named, handles, strict=True):
        drawn = handle.get_color() if hasattr(handle, "get_color") else to_hex(handle.get_facecolor())
        own = {e["algorithm"].partition("~")[0] for e in entries if e["label"] == entry}
        lines = [e for e in spec["panels"][0].get("series", []) if e["algorithm"].partition("~")[0] in own]
        if len(lines) <= 1:
            assert drawn in {palette.STYLES[base][0] for base in own}
    assert spec["scale"] == "preview" and "Preview scale" in figure.get_suptitle()


def test_figures_that_share_runs_with_tables_train_nothing_more() -> None:
    tables = {run.path for table in EXP.tables for run in EXP.table_runs("preview", table)}
    for name in ("fedsmoo2023_F7", "fedsmoo2023_F9", "fedsam2022_F1", "dfedsam2023_F3", "dfedsam2023_F5"):
        assert set(EXP.figure("preview", name)["runs"]) <= tables


def test_a_sweep_has_at_most_three_values_at_preview() -> None:
    for name, found in EXP.figures.items():
        if found.kind == "sweep":
            for panel in EXP.figure("preview", name)["spec"]["panels"]:
                values = {point["x"] for series in panel["series"] for point in series["points"]}
                assert 2 <= len(values) <= 3, (name, panel["title"], values)
