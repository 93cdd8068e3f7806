"""Figures: smoothing by hand, fixed colours that colour-blind readers can tell apart, the same bytes twice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.textpath import TextToPath

import made
from flatfed import figures
from flatfed.errors import DataError
from flatfed.figures import curves, heat_map, palette
from flatfed.figures import style as paper

#: The algorithms that one figure of a paper shows together.
TOGETHER = {
    "fedsam2022": ["fedavg", "scaffold", "fedrobust", "fedcm", "mimelite", "fedsam", "mofedsam"],
    "fedsmoo2023": ["fedavg", "fedadam", "scaffold", "fedcm", "feddyn", "fedsam", "mofedsam", "fedsmoo"],
    "fedlesam2024": ["fedavg", "fedsam", "mofedsam", "fedgamma", "fedsmoo", "fedlesam", "centralised_sam"],
    "dfedsam2023": ["fedavg", "fedsam", "dpsgd", "dfedavg", "dfedavgm", "dispfl", "dfedsam", "dfedsam_mgs"],
}


def make_run(folder, accuracies):
    rounds = list(range(1, len(accuracies) + 1))
    columns = dict.fromkeys(("round", "train_loss", "test_loss", "consistency"), rounds)
    return made.run(made.place(folder), {**columns, "test_accuracy": list(accuracies)})


@pytest.fixture
def curve_spec(tmp_path):
    """Two panels; one algorithm with two seeds, one that diverged early, one whose runs are missing."""
    up = np.linspace(0.1, 0.8, 20)
    runs = {
        "fedavg": [make_run(tmp_path / "a1", up), make_run(tmp_path / "a2", up + 0.02)],
        "fedcm": [make_run(tmp_path / "c1", [0.1, 0.2, "nan"])],
        "fedsmoo~rho0.05": [str(tmp_path / "nowhere")],
    }
    series = [{"algorithm": name, "label": name, "by_seed": folders} for name, folders in runs.items()]
    panels = [{"title": title, "marks": series} for title in ("Dirichlet, u = 0.6", "Pathological, c = 3")]
    return {
        "figure": "fedsmoo2023_F7", "kind": "curves", "scale": "preview", "title": "Test accuracy",
        "paper": "P, Figure 7", "setting": "digits", "metric": "test_accuracy", "smooth": 5, "panels": panels,
    }  # fmt: skip


@pytest.fixture
def partition_spec(tmp_path):
    counts = np.random.default_rng(0).integers(0, 9, (30, 10))
    made.partition(tmp_path / "p.npz", counts)
    panels = [{"title": "Dirichlet", "marks": [{"label": "", "files": [str(tmp_path / "p.npz")]}]}]
    return {"figure": "fedsmoo2023_F5", "kind": "partition", "scale": "paper", "title": "Classes", "panels": panels}


def texts(figure) -> str:
    return " ".join(
        text.get_text().replace("\n", " ") for text in figure.findobj(match=lambda a: hasattr(a, "get_text"))
    )


@pytest.mark.parametrize("kind", ["curve_spec", "partition_spec"])
def test_both_formats_are_written_and_the_same_inputs_give_the_same_bytes(kind, tmp_path, request):
    spec = request.getfixturevalue(kind)
    figures.make(made.figure_spec(spec), tmp_path / "one")
    figures.make(made.figure_spec(spec), tmp_path / "two")
    for suffix, magic in ((".png", b"\x89PNG"), (".pdf", b"%PDF")):
        first = (tmp_path / "one" / (spec["figure"] + suffix)).read_bytes()
        assert first.startswith(magic)
        assert first == (tmp_path / "two" / (spec["figure"] + suffix)).read_bytes()
        assert b"CreationDate" not in first


def test_curves_say_scale_setting_units_seeds_and_what_is_missing(curve_spec):
    figure = curves.draw(made.figure_spec(curve_spec))
    said = texts(figure)
    assert "Preview scale, not the paper's data: Test accuracy" in said
    assert "Test accuracy (%)" in said and "Communication round" in said
    assert "Hanning window of 5" in said and "n = 1 or 2" in said
    assert "2 runs are missing" in said and "ends early" in said
    assert [axis.get_title() for axis in figure.axes] == ["Dirichlet, u = 0.6", "Pathological, c = 3"]


def test_curves_draw_the_mean_over_seeds_in_percent(curve_spec):
    figure = curves.draw(made.figure_spec({**curve_spec, "smooth": 0}))
    line = figure.axes[0].get_lines()[0]
    np.testing.assert_allclose(line.get_xdata(), np.arange(1, 21))
    np.testing.assert_allclose(line.get_ydata(), 100 * np.linspace(0.11, 0.81, 20))
    assert line.get_color() == palette.STYLES["fedavg"][0]
    stopped = figure.axes[0].get_lines()[1]
    np.testing.assert_allclose(stopped.get_ydata(), [10, 20])


def test_hanning_by_hand():
    # Three points, all of positive weight: 1/4, 1/2, 1/4 after normalising; two thirds and one third at the ends.
    smooth = curves.hanning(np.array([0.0, 4.0, 0.0, 0.0, 8.0]), 3)
    np.testing.assert_allclose(smooth, [4 / 3, 2.0, 1.0, 2.0, 16 / 3])


@pytest.mark.parametrize("window", [0, 1, 5, 51])
def test_hanning_keeps_constants_and_length(window):
    for length in (1, 2, 5, 6):
        np.testing.assert_allclose(curves.hanning(np.full(length, 3.0), window), np.full(length, 3.0))


def test_an_unknown_metric_is_refused_by_name(curve_spec, tmp_path):
    with pytest.raises(DataError, match="unknown metric 'test_acuracy'; did you mean 'test_accuracy'"):
        figures.make(made.figure_spec({**curve_spec, "metric": "test_acuracy"}), tmp_path)


@pytest.mark.parametrize("shape", [(30, 10), (100, 100), (1, 2), (200, 62)])
def test_partition_shows_every_client_and_class(shape, tmp_path):
    counts = np.ones(shape, dtype=np.int64)
    counts[0, 1] = 0
    made.partition(tmp_path / "p.npz", counts)
    panels = [{"title": "P", "marks": [{"label": "", "files": [str(tmp_path / "p.npz")]}]}] * 2
    spec = {"figure": "f", "kind": "partition", "scale": "paper", "title": "T", "panels": panels}
    figure = heat_map.draw(made.figure_spec(spec))
    shown = figure.axes[0].images[0].get_array()
    assert shown.shape == shape[::-1]
    assert shown.mask[1, 0] and shown.mask.sum() == 1, "a count of zero is white"
    assert all(len(axis.get_xticks()) <= 12 for axis in figure.axes[:2])


def test_damaged_partitions_are_named(tmp_path, partition_spec):
    (tmp_path / "p.npz").write_bytes(b"no")
    np.savez(tmp_path / "q.npz", indices=np.arange(3))
    for name in ("p.npz", "q.npz", "r.npz"):
        panels = [{"title": "Dirichlet", "marks": [{"label": "", "files": [str(tmp_path / name)]}]}]
        with pytest.raises(DataError, match=rf"{name}: cannot be read as a partition .*; delete it to rebuild"):
            heat_map.draw(made.figure_spec({**partition_spec, "panels": panels}))


def test_every_algorithm_of_the_house_has_its_own_look():
    ids = (
        "fedavg fedprox fedadam scaffold fedcm mimelite fedrobust feddyn fedsam mofedsam fedgamma fedspeed fedsmoo "
        "fedlesam fedlesam_s fedlesam_d dpsgd dfedavg dfedavgm dispfl dfedsam dfedsam_mgs centralised_sgd "
        "centralised_sam"
    )
    assert sorted(palette.STYLES) == sorted(ids.split())
    assert len({colour for colour, _ in palette.STYLES.values()}) == len(ids.split())
    assert palette.style("fedsmoo~rho0.05")[0] == palette.style("fedsmoo")[0]
    assert palette.style("my_own") == palette.style("my_own")
    assert palette.style("my_own")[0] not in {colour for colour, _ in palette.STYLES.values()}


def lab(rgb: np.ndarray) -> np.ndarray:
    """Return CIE L*a*b* of linear RGB."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb
    f = np.cbrt(np.clip(xyz / [0.9505, 1.0, 1.089], 1e-9, None))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def seen(colour: str, blindness: np.ndarray) -> np.ndarray:
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return lab(np.clip(blindness @ linear, 0, 1))


#: What full vision, deuteranopia and protanopia make of linear RGB (Machado, Oliveira and Fernandes 2009, severity 1).
VISION = {
    "full": np.eye(3),
    "deuteranopia": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
    "protanopia": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
}


@pytest.mark.parametrize("paper", TOGETHER)
@pytest.mark.parametrize("vision", VISION)
def test_lines_drawn_together_can_be_told_apart(paper, vision):
    for one, other in itertools.combinations(TOGETHER[paper], 2):
        (a, dash_a), (b, dash_b) = palette.style(one), palette.style(other)
        distance = np.linalg.norm(seen(a, VISION[vision]) - seen(b, VISION[vision]))
        assert distance > (12 if dash_a == dash_b else 5), (one, other, distance)


@pytest.mark.parametrize("paper", TOGETHER)
def test_lines_that_coincide_are_both_seen(paper):
    """Every two of a figure, drawn over the same points: pixels of either colour are left."""
    strokes = palette.strokes((name, palette.style(name)) for name in TOGETHER[paper])
    for one, other in itertools.combinations(TOGETHER[paper], 2):
        figure = Figure(figsize=(2, 0.1), dpi=800)  # as fine as a vector drawing
        axis = figure.add_axes((0, 0, 1, 1))
        axis.set_axis_off()
        for name in (one, other):
            axis.plot([0, 1], [0, 0], **strokes[palette.style(name)])
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba())[..., :3] / 255
        for name in (one, other):
            near = np.abs(pixels - to_rgb(palette.STYLES[name][0])).max(axis=-1) < 0.12
            assert near.sum() > 500, (one, other, name)


def test_a_line_looks_the_same_in_all_panels_of_a_figure():
    """FedLESAM's Figure 2 has FedAvg in its second panel only: it is the first of the house all the same."""
    names = ["fedsmoo", "fedlesam", "fedavg", "fedsmoo", "fedlesam"]
    strokes = palette.strokes((name, palette.style(name)) for name in names)
    widths = [strokes[palette.style(name)]["linewidth"] for name in ("fedavg", "fedsmoo", "fedlesam")]
    heights = [strokes[palette.style(name)]["zorder"] for name in ("fedavg", "fedsmoo", "fedlesam")]
    assert widths == sorted(widths, reverse=True) and heights == sorted(heights) and len(set(widths)) == 3


def test_lines_of_the_foot_end_at_the_width_and_no_word_stands_alone():
    text = "Here: " + "digits of 8x8, " * 40
    for length in range(100, len(text), 7):
        lines = paper.wrapped(text[:length], paper.CAPTION).split("\n")
        assert " ".join(lines).split() == text[:length].split()
        wide = [TextToPath().get_text_width_height_descent(line, paper.CAPTION, False)[0] / 72 for line in lines]
        assert max(wide) <= paper.WIDTH and (len(wide) == 1 or wide[-1] > 0.14 * paper.WIDTH)
