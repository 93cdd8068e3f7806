"""Every figure of the configuration, of made-up inputs, is fit to print: units, legend, colours, nothing overlaps.

What a figure shows is tested with its kind; here only what a reader of the printed page would miss.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from test_figures import VISION, seen

import made
from flatfed import figures
from flatfed.analysis.landscape.landscape_file import Landscape, write
from flatfed.experiment import figure_specs, run_specs, scales
from flatfed.experiment import figures as declared
from flatfed.experiment.panels import DrawnPanel, FigureSpec, Mark
from flatfed.figures import histogram, palette
from flatfed.figures.style import MARGIN, WIDTH, frame
from flatfed.papers.figure_kinds import COLUMNS, PROBES
from flatfed.runs.run import Run
from samples import sampled
from shipped import EXP

matplotlib.use("Agg")

ROOT = Path(__file__).parents[2]

#: A figure of each kind.
SAMPLE = (
    *("dfedsam2023_F5", "dfedsam2023_F5a", "fedlesam2024_F1", "fedsmoo2023_F2"),
    *("fedsmoo2023_F4", "fedsmoo2023_F5", "fedsmoo2023_F7"),
)

#: Kinds whose lines and bars are algorithms.
TRAINED = ("curves", "sweep", "bars", "eigenvalues")

#: Axes that count or number something, or show a ratio: all others end with their unit in brackets.
COUNTED = {
    *("Communication round", "Local communications\n(rounds x gossip steps)", "Training images", "Client", "Class"),
    *(parameter.axis for parameter in declared.PARAMETERS.values()),
    *("$x$", "$y$"),
}
UNITS = ("(%)", "(nats)", "(0 to 1)", "(weights, squared)")


def make_inputs(figure: dict, root: Path) -> None:
    """Write all that a figure reads, under ``root``: runs, partitions, surfaces and Hessians."""
    analysed: dict[str, Run] = {}
    for run in figure.runs.values():
        analysed |= {run.hessian: run, run.surface(): run, run.surface("test"): run}
    for place, run in enumerate(figure.runs):
        folder = root / run
        protocol = EXP.catalog.protocols[run.split("/")[3]]
        rounds = protocol.scales[figure.scale]["rounds"]
        numbers = sorted({*np.linspace(1, rounds, 20, dtype=int).tolist()})
        values = [f"{number / rounds * (0.5 + place / 1000):.4f}" for number in numbers]
        probe = {"images_sha256": made.DIGEST, "seconds": 1}
        probes = [{"round": number, **probe, **dict.fromkeys(PROBES, 0.5 + place / 100)} for number in (0, rounds)]
        _, scale, _, *ids, seed = run.split("/")
        about = run_specs.run(EXP, scale, *ids, int(seed.removeprefix("seed"))).description
        columns = {"round": numbers, **dict.fromkeys(COLUMNS, values)}
        made.run(folder, columns, description=about, probes=probes, seconds=5.0)
    for path in map(root.joinpath, figure.inputs):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.name == "hessian.json":
            run = analysed[str(path.relative_to(root))]
            made.written(path, made.hessian(3.0, 9.0, (3.0, 9.0), run=run.name, scale=run.scale))
        elif "analysis" in path.parts:
            write(path, surface(analysed[str(path.relative_to(root))]))
        elif path.suffix == ".npz":
            made.partition(path, np.arange(300).reshape(30, 10) % 7)


def surface(run: Run) -> Landscape:
    """Return a bowl around the model of ``run``."""
    along = np.linspace(-1, 1, 5)
    loss = (along[:, None] ** 2 + along**2)[None]
    about = made.landscape_about([made.landscape_model(run.algorithm, name=run.name, scale=run.scale)])
    return Landscape(about, along, along, loss, loss)


def without_data(mark: Mark) -> Mark:
    """Return ``mark`` with runs whose partitions are not looked at."""
    return replace(mark, by_seed=[[replace(run, partition=None) for run in runs] for runs in mark.by_seed])


def drawn(name: str, root: Path, monkeypatch: pytest.MonkeyPatch, scale: str = "preview") -> tuple[FigureSpec, Figure]:
    """Return (specification, figure) of a declared figure of made-up inputs."""
    monkeypatch.chdir(root)
    found = figure_specs.figure_spec(EXP, scale, name)
    make_inputs(found, root)
    unchecked = [
        replace(panel, **{key: list(map(without_data, getattr(panel, key))) for key in ("marks", "levels")})
        for panel in found.panels
    ]
    found = replace(found, panels=unchecked)
    with pyplot.rc_context(figures.STYLE):
        return found, figures.KINDS[found.kind](found)


@pytest.mark.parametrize("name", sampled(EXP.figures, SAMPLE))
def test_a_figure_is_fit_to_print(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, figure = drawn(name, tmp_path, monkeypatch)
    try:
        panels = [axis for axis in figure.axes if axis.get_visible()][: len(spec.panels)]
        check_labels(spec, panels)
        said = " ".join(text.get_text() for text in figure.texts).replace("\n", " ")
        assert spec.paper in said and spec.setting in said and "issing" not in said
        assert spec.caption in said
        assert "Preview scale" in figure.get_suptitle()
        if spec.kind in TRAINED:
            check_legend(spec, figure)
            check_colours(spec, panels)
        check_overlaps(figure)
        check_places(spec, figure, panels)
    finally:
        pyplot.close(figure)


def check_labels(spec: FigureSpec, panels: list) -> None:
    """Check that every axis of every panel says what it shows, and in which unit."""
    grouped = spec.kind in ("bars", "eigenvalues")
    for axis in panels[:1] if grouped else panels:
        labels = [axis.get_ylabel(), *([] if grouped else [axis.get_xlabel()])]
        labels += [axis.get_zlabel()] if axis.name == "3d" else []
        for label in labels:
            assert label in COUNTED or label.endswith(UNITS), f"{label!r} has no unit"
    titles = [panel.title for panel in spec.panels]
    if grouped:
        assert [tick.get_text() for tick in panels[0].get_xticklabels()] == titles
    elif spec.kind != "surface":
        assert [axis.get_title() for axis in panels] == titles
    else:
        assert set(titles) <= {text.get_text() for text in panels[0].figure.texts}


def entries_of(panel: DrawnPanel) -> list[Any]:
    return [*panel.marks, *panel.levels]


def check_legend(spec: FigureSpec, figure: Figure) -> None:
    """Check that the legends name every line, a common one each once and in the house's order."""
    wanted = {entry.label: entry.algorithm for panel in spec.panels for entry in entries_of(panel)}
    legends = figure.legends or [axis.get_legend() for axis in figure.axes if axis.get_visible()]
    named = [text.get_text() for legend in legends for text in legend.get_texts()]
    named = [label for label in named if label != "PyHessian"]
    assert set(named) == set(wanted) and not any("{" in label for label in named)
    if spec.kind in ("curves", "sweep"):
        looks = {}
        for panel in spec.panels:
            looks |= zip([one.label for one in entries_of(panel)], wanted_looks(spec, entries_of(panel)), strict=True)
        for legend in legends:
            for text, line in zip(legend.get_texts(), legend.get_lines(), strict=True):
                assert to_hex(line.get_color()) == to_hex(looks[text.get_text()][0])
    if figure.legends:
        places = [palette.rank(wanted[label]) for label in named]
        assert places == sorted(places) and len(named) == len(wanted)


def check_colours(spec: FigureSpec, panels: list) -> None:
    """Check that what is drawn has its algorithm's own colour, and that neighbours differ for every reader."""
    axes = panels[:1] * len(spec.panels) if spec.kind in ("bars", "eigenvalues") else panels
    for panel, axis in zip(spec.panels, axes, strict=True):
        entries = entries_of(panel)
        looks = dict(zip([entry.label for entry in entries], wanted_looks(spec, entries), strict=True))
        if spec.kind in ("bars", "eigenvalues"):
            shown = [to_hex(patch.get_facecolor()) for patch in axis.patches]
            assert [colour for colour, _ in looks.values()] == shown[: len(looks)] or len(spec.panels) > 1
            assert {colour for colour, _ in looks.values()} <= set(shown)
        else:
            shown = [to_hex(line.get_color()) for line in axis.get_lines() if line.get_linewidth() >= 1]
            assert sorted(shown) == sorted(to_hex(colour) for colour, _ in looks.values())
        check_told_apart(looks)


def wanted_looks(spec: FigureSpec, entries: list[Any]) -> list[tuple[str, object]]:
    """Return (colour, dashes) of entries: of several lines of an algorithm, curves show shades of its colour."""
    algorithms = [entry.algorithm for entry in entries]
    if spec.kind == "curves":
        looks = palette.styles(algorithms)
    else:
        looks = [palette.style(algorithm) for algorithm in algorithms]
    bases = [algorithm.partition("~")[0] for algorithm in algorithms]
    for base, look in zip(bases, looks, strict=True):
        if bases.count(base) == 1:
            assert look[0] == palette.STYLES[base][0], "one colour per algorithm everywhere"
    return looks


def check_told_apart(looks: dict[str, tuple[str, object]]) -> None:
    """Check that colours differ to full vision, deuteranopia and protanopia, more where the dashes are the same."""
    for (one, (a, dash_a)), (other, (b, dash_b)) in itertools.combinations(looks.items(), 2):
        for vision in VISION.values():
            distance = np.linalg.norm(seen(a, vision) - seen(b, vision))
            assert distance > (10 if dash_a == dash_b else 4), (one, other, distance)


def check_overlaps(figure: Figure) -> None:
    """Check that titles, axis labels and legends lie apart, and no legend on a panel."""
    figure.draw_without_rendering()
    axes = [axis for axis in figure.axes if axis.get_visible()]
    legends = [*figure.legends, *(axis.get_legend() for axis in axes if axis.get_legend())]
    flat = [axis for axis in axes if axis.name != "3d"]
    texts = [text for axis in flat for text in (axis.title, axis.xaxis.label, axis.yaxis.label) if text.get_text()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    boxes += [("legend", legend.get_window_extent()) for legend in legends]
    boxes += [(text.get_text(), text.get_window_extent()) for text in figure.texts]
    for axis in axes:
        # Not get_ticklabels(), which puts the numbers back to where they stood in two dimensions.
        around = [axis.xaxis, axis.yaxis, axis.zaxis] if axis.name == "3d" else []
        texts = [text for one in around for text in (one.label, *(tick.label1 for tick in one.majorTicks))]
        boxes += [(text.get_text(), text.get_window_extent()) for text in texts]
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        assert not overlap(a, b), f"{one!r} on {other!r}"
    for legend, axis in itertools.product(legends, axes):
        assert not overlap(legend.get_window_extent(), axis.get_window_extent()), "a legend covers a panel"
    width = figure.bbox.width
    beyond = [text for text, box in boxes if box.x0 < -0.02 * width or box.x1 > 1.02 * width]
    assert not beyond, "beyond the printed width"


def check_places(spec: FigureSpec, figure: Figure, panels: list) -> None:
    """Check that a file has the printed width, that three panels stand side by side, and rows in the middle."""
    assert 0.999 * WIDTH < frame(figure).width - 2 * MARGIN < 1.02 * WIDTH
    rows: dict[float, list[float]] = {}
    for axis in panels:
        left, bottom, width, _ = axis.get_position().bounds
        rows.setdefault(round(bottom, 3), []).append(left + width / 2)
    assert len(panels) != 3 or len(rows) == 1
    if spec.kind == "surface":
        middles = [sum(places) / len(places) for places in rows.values()]
        assert max(middles) - min(middles) < 0.01, "a row of fewer panels stands in the middle"


def overlap(one, other) -> bool:
    """Say whether two boxes share more than a pixel in both directions."""
    return min(one.x1, other.x1) - max(one.x0, other.x0) > 1 and min(one.y1, other.y1) - max(one.y0, other.y0) > 1


def test_all_values_of_the_paper_find_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DFedSAM's F6 has nine radii at paper scale, and its F4 the longest labels."""
    for name in ("dfedsam2023_F6", "dfedsam2023_F4"):
        (tmp_path / name).mkdir()
        _, figure = drawn(name, tmp_path / name, monkeypatch, "paper")
        check_overlaps(figure)
        pyplot.close(figure)


@pytest.mark.parametrize("vision", VISION)
def test_outlines_of_histograms_can_be_told_apart(vision: str) -> None:
    for (a, _), (b, _) in itertools.combinations(histogram.OUTLINES, 2):
        assert np.linalg.norm(seen(a, VISION[vision]) - seen(b, VISION[vision])) > 10


def test_the_mesh_of_fedsmoo_is_the_same_in_the_three_panels() -> None:
    """Each model is in a file of its own, by its own filters, FedSMOO's in one for all panels."""
    panels = figure_specs.figure_spec(EXP, "preview", "fedsmoo2023_F3").panels
    assert len({panel.marks[1].files[0] for panel in panels}) == 1
    for panel, algorithm in zip(panels, ("fedavg", "scaffold", "mofedsam"), strict=True):
        for entry, row in zip(panel.marks, (algorithm, "fedsmoo"), strict=True):
            assert entry.files[0].endswith(f"/dir0.1-100/{row}/seed1/surface.npz")
            assert [run.surface() for run in entry.runs] == entry.files


def test_surfaces_that_are_compared_are_of_the_same_images() -> None:
    """Of one split and seed, they are drawn from the same images; of several, from the test images."""
    for name, found in EXP.figures.items():
        for scale in ("preview", "paper") if found.kind == "surface" else ():
            files: dict[str, set[str]] = {}
            for panel in figure_specs.figure_spec(EXP, scale, name).panels:
                for file in [entry.files[0] for entry in panel.marks]:
                    _, _, _, protocol, split, _, seed, surface_ = file.split("/")
                    deal = run_specs.partition_spec(EXP, scale, protocol, split, int(seed.removeprefix("seed")))
                    files.setdefault(protocol, set()).add("test" if ".test." in surface_ else json.dumps(deal))
            assert all(len(images) == 1 for images in files.values()), name


def test_the_captions_of_probes_say_what_is_measured() -> None:
    """Radius, images and what stays of the paper's definition; a figure without probes has none of it."""
    for scale, images in (("preview", "500"), ("paper", "4,096")):
        said = figure_specs.figure_spec(EXP, scale, "fedlesam2024_F2").caption
        for words in (
            *("ρ = 0.1, g the gradient", "one step of ascent, a lower bound", f"loss on the same {images} training"),
            *("The virtual model averages all clients", "counts as 1/2"),
        ):
            assert said.count(words) == 1
    assert "gradient of F" not in figure_specs.figure_spec(EXP, "paper", "fedsmoo2023_F7").caption


def test_centralised_lines_are_of_the_federated_deal() -> None:
    """F2's centralised SGD and SAM have the images of the federated lines at one place, so that F is one."""
    for scale in ("preview", "paper"):
        _, right = figure_specs.figure_spec(EXP, scale, "fedlesam2024_F2").panels
        deals = {}
        for line in right.marks:
            protocol, split, _, seed = line.runs[0].path.split("/")[3:]
            deals[line.algorithm] = run_specs.partition_spec(
                EXP, scale, protocol, split, int(seed.removeprefix("seed"))
            )
        federated = deals.pop("fedavg")
        for name, deal in deals.items():
            if name.startswith("centralised"):
                assert {**deal, **deal["images_of"]} == {**federated, "images_of": deal["images_of"]}
            else:
                assert deal == federated
        assert {"centralised_sgd", "centralised_sam"} < set(deals)


def test_figures_that_share_runs_with_tables_train_nothing_more() -> None:
    tables = {
        run.path
        for table, _ in scales.all_at(EXP, "preview").tables
        for run in made.table_runs(EXP, "preview", table)
    }
    for name in ("fedsmoo2023_F7", "fedsmoo2023_F9", "fedsam2022_F1", "dfedsam2023_F3", "dfedsam2023_F5"):
        assert set(figure_specs.figure_spec(EXP, "preview", name).runs) <= tables


def test_a_sweep_has_at_most_three_values_at_preview() -> None:
    for name, found in EXP.figures.items():
        if found.kind == "sweep":
            for panel in figure_specs.figure_spec(EXP, "preview", name).panels:
                values = {point.x for point in panel.marks}
                assert 2 <= len(values) <= 3, (name, panel.title, values)
