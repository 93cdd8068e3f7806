"""Every figure of the configuration, of made-up inputs, is fit to print: nothing overlaps or is cut off.

What a figure shows is tested in test_outputs.py; here only what a reader of the printed page would miss.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axis import Axis, Tick
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter
from test_style import VISION, seen

import made
from flatfed import figures
from flatfed.figures import draw_histogram, style
from flatfed.plan import at_scale
from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import COLUMNS, PROBES, Mark
from flatfed.runs.landscape_file import Landscape, write
from flatfed.runs.run import Run
from flatfed.tables import set_up
from samples import sampled
from shipped import EXP
from small_results import flatfed

matplotlib.use("Agg")


#: A figure of each kind.
SAMPLE = (
    *("dfedsam2023_F5", "dfedsam2023_F5a", "fedlesam2024_F1", "fedsmoo2023_F2"),
    *("fedsmoo2023_F4", "fedsmoo2023_F5", "fedsmoo2023_F7"),
)
#: Figures and widths; text is most likely to overlap in the narrower one.
CASES = [(name, width) for name in EXP.figures for width in (7.0, 3.3)]
SAMPLED = [*((name, 3.3) for name in SAMPLE), (SAMPLE[0], 7.0)]


def make_inputs(figure: dict, root: Path) -> None:
    """Write all that a figure reads, under ``root``: runs, partitions, surfaces and Hessians."""
    analysed: dict[str, Run] = {}
    for run in figure.runs.values():
        analysed |= {run.hessian: run, run.surface(): run, run.surface("test"): run}
    for place, run in enumerate(figure.runs):
        folder = root / run
        protocol = EXP.catalog.protocols[run.split("/")[3]]
        rounds = protocol.scales[figure.scale].rounds
        numbers = sorted({*np.linspace(1, rounds, 20, dtype=int).tolist()})
        values = [f"{number / rounds * (0.5 + place / 1000):.4f}" for number in numbers]
        probe = {"images_sha256": made.DIGEST, "seconds": 1}
        probes = [{"round": number, **probe, **dict.fromkeys(PROBES, 0.5 + place / 100)} for number in (0, rounds)]
        _, scale, _, *ids, seed = run.split("/")
        about = EXP.run(scale, *ids, int(seed.removeprefix("seed"))).config.as_json()
        columns = {"round": numbers, **dict.fromkeys(COLUMNS, values)}
        made.run(folder, columns, settings=about, probes=probes, seconds=5.0)
    for path in map(root.joinpath, figure.inputs):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.name == "hessian.json":
            run = analysed[str(path.relative_to(root))]
            settings = {**made.hessian_about().settings, **run.analyses["hessian"]}
            about = {"run": run.name, "scale": run.scale, "settings": settings, "images": settings["images"]}
            made.written(path, made.hessian(3.0, 9.0, (3.0, 9.0), **about, images_of=50000))
        elif "analysis" in path.parts:
            about = {"set": "test"} if path.name == "surface.test.npz" else {}
            write(path, surface(analysed[str(path.relative_to(root))], **about))
        elif path.suffix == ".npz":
            made.partition(path, np.arange(300).reshape(30, 10) % 7)


def surface(run: Run, **changes: str) -> Landscape:
    """Return a bowl around the model of ``run``."""
    along = np.linspace(-1, 1, 5)
    loss = (along[:, None] ** 2 + along**2)[None]
    model = made.landscape_model(run.algorithm, name=run.name, scale=run.scale)
    about = made.landscape_about([model], **{**run.analyses["surface"], **changes})
    return Landscape(about, along, along, loss, loss)


def without_data(mark: Mark) -> Mark:
    """Return ``mark`` with runs whose partitions are not looked at."""
    of_seeds = ((number, tuple(replace(run, partition=None) for run in number.runs)) for number in mark.numbers)
    return replace(mark, numbers=[replace(number, runs=runs) for number, runs in of_seeds])


def test_the_users_matplotlib_changes_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = at_scale.figure(EXP, "preview", "fedsmoo2023_F5")
    make_inputs(spec, tmp_path)
    spec = replace(spec, panels=[replace(panel, marks=list(map(without_data, panel.marks))) for panel in spec.panels])
    figures.make(spec, tmp_path / "plain")
    with matplotlib.rc_context({"lines.linewidth": 9, "savefig.transparent": True, "axes.titleweight": "bold"}):
        figures.make(spec, tmp_path / "other")
    names = [path.name for path in (tmp_path / "plain").iterdir()]
    for name in names:
        assert (tmp_path / "other" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes(), name


@pytest.mark.parametrize("case", sampled(CASES, SAMPLED), ids="{0[0]} {0[1]}".format)
def test_a_figure_is_fit_to_print(case: tuple[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, width = case
    monkeypatch.chdir(tmp_path)
    spec = at_scale.figure(EXP, "preview", name)
    make_inputs(spec, tmp_path)
    unchecked = [replace(panel, marks=list(map(without_data, panel.marks))) for panel in spec.panels]
    saved: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: saved.append(figure) or check_overlaps(figure))
    figures.make(replace(spec, panels=unchecked, width=width), tmp_path)
    notes = (tmp_path / f"{name}.txt").read_text().replace("\n", " ")
    assert set_up.caption(spec) in notes and "issing" not in notes, "all of its runs are read"
    check_places(spec, saved[0], width)


def check_overlaps(figure: Figure) -> None:
    """Check that titles, axis labels and legends lie apart, and no legend on a panel."""
    figure.draw_without_rendering()
    axes = [axis for axis in figure.axes if axis.get_visible()]
    legends = [*figure.legends, *(axis.get_legend() for axis in axes if axis.get_legend())]
    flat = [axis for axis in axes if axis.name != "3d"]
    texts = [text for axis in flat for text in (axis.title, axis.xaxis.label, axis.yaxis.label) if text.get_text()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    named = [axis for axis in flat if isinstance(axis.xaxis.get_major_formatter(), FixedFormatter)]
    boxes += [(text.get_text(), text.get_window_extent()) for axis in named for text in axis.get_xticklabels()]
    boxes += [("legend", legend.get_window_extent()) for legend in legends]
    boxes += [(text.get_text(), text.get_window_extent()) for axis in axes for text in axis.texts]
    for axis in axes:
        # Not get_ticklabels(), which puts the numbers back to where they stood in two dimensions.
        around = [axis.xaxis, axis.yaxis, axis.zaxis] if axis.name == "3d" else []
        texts = [text for one in around for text in (one.label, *(tick.label1 for tick in shown(one)))]
        boxes += [(text.get_text(), text.get_window_extent()) for text in texts]
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        assert not overlap(a, b), f"{one!r} on {other!r}"
    for legend, axis in itertools.product(legends, axes):
        assert not overlap(legend.get_window_extent(), axis.get_window_extent()), "a legend covers a panel"
    page = figure.bbox
    inside = page.padded(1)
    beyond = [text for text, box in boxes if not (inside.contains(box.x0, box.y0) and inside.contains(box.x1, box.y1))]
    assert not beyond, "cut off by the edge of the picture"


def shown(axis: Axis) -> list[Tick]:
    """Return the major ticks that an axis draws."""
    return axis.get_major_ticks(len(axis.get_majorticklocs()))


def check_places(spec: ShownFigure, figure: Figure, width: float) -> None:
    """Check that a file has the width, that letters keep their size, and that three panels are in a row, or in none."""
    assert figure.get_figwidth() == width
    panels = [axis for axis in figure.axes if axis.get_visible()][: len(spec.panels)]
    sizes = {round(text.get_fontsize(), 2) for axis in panels for text in (axis.title, axis.xaxis.label)}
    assert sizes == {8.0}
    rows = {round(axis.get_position().y0, 3) for axis in panels}
    assert len(panels) != 3 or len(rows) == (1 if width == 7 else 3)


def overlap(one, other) -> bool:
    """Say whether two boxes share more than a pixel in both directions."""
    return min(one.x1, other.x1) - max(one.x0, other.x0) > 1 and min(one.y1, other.y1) - max(one.y0, other.y0) > 1


@pytest.mark.parametrize("vision", VISION)
def test_outlines_of_histograms_can_be_told_apart(vision: str) -> None:
    for (a, _), (b, _) in itertools.combinations(draw_histogram.OUTLINES, 2):
        assert np.linalg.norm(seen(a, VISION[vision]) - seen(b, VISION[vision])) > 10


def test_the_legend_of_a_panel_is_below_a_label_of_two_lines(small_project, monkeypatch):
    boxes = []

    def measure(figure, *_, **__):
        renderer = figure.canvas.get_renderer()
        figure.draw(renderer)
        for axis in figure.axes:
            boxes.append([part.get_window_extent(renderer) for part in (axis.xaxis.label, axis.get_legend())])

    monkeypatch.setattr(Figure, "savefig", measure)
    flatfed("figure", "curves_variants", "--scale", "paper", "--out", "labels")
    assert boxes and all(legend.y1 <= label.y0 for label, legend in boxes)


def test_a_figure_of_one_column_has_two_panels_a_row_and_fits_on_a_page():
    spec = replace(at_scale.figure(EXP, "paper", "dfedsam2023_F3"), width=3.3)
    figure, axes = style.panels(spec, [panel.title for panel in spec.panels])
    assert {axis.get_gridspec().ncols for axis in axes} == {2} and figure.get_figheight() < 7
    pyplot.close(figure)
