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
from matplotlib.figure import Figure
from test_style import VISION, seen

import made
from flatfed import figures
from flatfed.figures import draw_histogram
from flatfed.figures.style import MARGIN, WIDTH, frame
from flatfed.plan import at_scale
from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import COLUMNS, PROBES, Mark
from flatfed.runs.landscape_file import Landscape, write
from flatfed.runs.run import Run
from samples import sampled
from shipped import EXP

matplotlib.use("Agg")


#: A figure of each kind.
SAMPLE = (
    *("dfedsam2023_F5", "dfedsam2023_F5a", "fedlesam2024_F1", "fedsmoo2023_F2"),
    *("fedsmoo2023_F4", "fedsmoo2023_F5", "fedsmoo2023_F7"),
)


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


def drawn(name: str, root: Path, monkeypatch: pytest.MonkeyPatch, scale: str = "preview") -> tuple[ShownFigure, Figure]:
    """Return (specification, figure) of a declared figure of made-up inputs."""
    monkeypatch.chdir(root)
    found = at_scale.figure(EXP, scale, name)
    make_inputs(found, root)
    unchecked = [
        replace(panel, **{key: list(map(without_data, getattr(panel, key))) for key in ("marks", "levels")})
        for panel in found.panels
    ]
    found = replace(found, panels=unchecked)
    with pyplot.rc_context(figures.STYLE):
        return found, figures.draw(found)


@pytest.mark.parametrize("name", sampled(EXP.figures, SAMPLE))
def test_a_figure_is_fit_to_print(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, figure = drawn(name, tmp_path, monkeypatch)
    try:
        panels = [axis for axis in figure.axes if axis.get_visible()][: len(spec.panels)]
        said = figure.get_label().replace("\n", " ")
        assert spec.caption in said and "issing" not in said, "all of its runs are read"
        check_overlaps(figure)
        check_places(spec, figure, panels)
    finally:
        pyplot.close(figure)


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


def check_places(spec: ShownFigure, figure: Figure, panels: list) -> None:
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


@pytest.mark.parametrize("vision", VISION)
def test_outlines_of_histograms_can_be_told_apart(vision: str) -> None:
    for (a, _), (b, _) in itertools.combinations(draw_histogram.OUTLINES, 2):
        assert np.linalg.norm(seen(a, VISION[vision]) - seen(b, VISION[vision])) > 10
