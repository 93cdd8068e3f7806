"""Figures of the small project draw the numbers of their files: means and deviations computed here from metrics.csv."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure

import small_results
from flatfed.data import partition
from flatfed.plan import at_scale
from flatfed.runs import landscape_file
from shipped import EXP
from small_results import flatfed

SEEDS = (1, 2)

#: Of the second panel of the surfaces.
ROWS = ("fedavg", "fedsam")


@pytest.fixture
def axes(small_project, monkeypatch):
    """Return a function that draws a figure and returns its axes."""
    shown: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: shown.append(figure))

    def draw(name: str, *options: str) -> list[Axes]:
        flatfed("figure", name, "--scale", "paper", "--out", "drawn", *options)
        return shown[-1].axes

    return draw


def percent(row: str) -> np.ndarray:
    """Return the test accuracies (seeds, rounds) of a row, in percent, from the files."""
    files = (Path(small_results.folder(row, seed), "metrics.csv") for seed in SEEDS)
    return np.array([[100 * float(line["test_accuracy"]) for line in csv.DictReader(file.open())] for file in files])


def line(axis: Axes, colour: str, width: float) -> np.ndarray:
    """Return the heights of the only line of a colour and width."""
    lines = (line for line in axis.get_lines() if to_hex(line.get_color()) == colour and line.get_linestyle() != "None")
    (drawn,) = (line for line in lines if line.get_linewidth() == width)
    return drawn.get_ydata()


def test_curves_are_smoothed_means_with_a_band_of_one_deviation(axes):
    axis = axes("curves")[0]
    values = percent("small/dir0.6/fedavg")
    weights = np.array([0.25, 0.5, 0.25])
    smooth = np.array([[seed[0], *np.convolve(seed, weights, "valid"), seed[-1]] for seed in values])
    mean, deviation = smooth.mean(axis=0), smooth.std(axis=0, ddof=1)
    np.testing.assert_allclose(line(axis, "#7f7883", 1.5), mean)
    np.testing.assert_allclose(line(axis, "#7f7883", 0.6), values.mean(axis=0))
    assert line(axis, "#7f7883", 1.5)[0] == pytest.approx(statistics.fmean(values[:, 0]))
    bands = [band.get_paths()[0].vertices for band in axis.collections if to_hex(band.get_facecolor()[0]) == "#7f7883"]
    edges = {(round(x), round(y, 6)) for x, y in bands[0]}
    for index in range(len(mean)):
        for sign in (-1, 1):
            assert (index + 1, round(mean[index] + sign * deviation[index], 6)) in edges


def test_bars_are_means_of_the_final_round_with_one_deviation(axes):
    (axis,) = axes("bars")
    expected = [percent(f"small/{split}/fedavg")[:, -1] for split in ("iid", "dir0.6", "path2")]
    bars = axis.containers[0]
    np.testing.assert_allclose([bar.get_height() for bar in bars], [values.mean() for values in expected])
    heights = [line.get_ydata() for line in axis.get_lines()]
    whiskers = {(round(np.nanmin(y), 6), round(np.nanmax(y), 6)) for y in heights if np.isfinite(y).any()}
    for values in expected:
        spread = statistics.stdev(values)
        assert (round(values.mean() - spread, 6), round(values.mean() + spread, 6)) in whiskers
    printed = [text.get_text() for text in axis.texts]
    assert {f"{values.mean():.1f}" for values in expected} <= {*printed}


def test_a_sweep_has_the_means_of_its_values_and_a_level(axes):
    axis = axes("sweep")[0]
    assert [text.get_text() for text in axis.get_xticklabels()] == ["0.05", "0.1"]
    means = [percent(f"small/iid/{row}")[:, -1].mean() for row in ("fedsmoo~s", "fedsmoo")]
    np.testing.assert_allclose(line(axis, "#a3195b", 1.5), means)
    level = percent("small/iid/fedavg")[:, -1].mean()
    np.testing.assert_allclose(line(axis, "#7f7883", 1.5), [level, level])


def test_a_heat_map_and_outlines_have_the_counts_of_the_partition(axes):
    counts = partition.load("results/paper/partitions/small/dir0.6/seed1.npz").class_counts
    cells = axes("partition")[0].collections[0].get_array()
    np.testing.assert_array_equal(np.ma.filled(cells, 0), counts.T)
    outline = axes("histogram")[0].get_lines()[0].get_ydata()
    assert {*counts.sum(axis=0)} <= {*outline}


def test_a_surface_has_contours_of_its_values_on_the_floor(axes):
    """The contours of two models in one panel have the same levels."""
    surfaces = [landscape_file.read(f"results/paper/analysis/small/iid/{row}/seed1/surface.npz") for row in ROWS]
    contours = [part for part in axes("surface")[1].collections if isinstance(part, ContourSet)]
    shared = {level for contour in contours for level in contour.levels}
    assert len(contours) == 2 and len(shared) <= 8
    for surface, contour in zip(surfaces, contours, strict=True):
        losses = surface.loss[np.isfinite(surface.loss)]
        expected = {level for level in shared if losses.min() < level < losses.max()}
        assert {*contour.levels} == expected and len(expected) >= 2


@pytest.mark.parametrize(
    ("name", "highlighted"),
    [
        ("curves", lambda axis: [line for line in axis.get_lines() if line.get_linewidth() == 3.0]),
        ("eigenvalues", lambda axis: [bar for bar in axis.patches if bar.get_linewidth() == 1.2]),
        ("surface_accuracy", lambda axis: [axis.title] if axis.title.get_fontweight() == "bold" else []),
    ],
)
def test_the_highlighted_algorithm_stands_out_in_each_kind(axes, name, highlighted):
    assert not [artist for axis in axes(name) for artist in highlighted(axis)]
    assert [artist for axis in axes(name, "--config", "highlight=fedsam") for artist in highlighted(axis)]


def test_the_width_of_config_yaml_and_that_of_a_figure_overrides_it(axes):
    figure = axes("curves", "--config", "width=3.3")[0].figure
    assert figure.get_figwidth() == 3.3
    assert {round(axis.title.get_fontsize(), 2) for axis in figure.axes} == {8.0}
    assert {round(text.get_fontsize(), 2) for axis in figure.axes for text in axis.get_xticklabels()} == {7.33}
    path = Path("config/figures/curves.yaml")
    text = path.read_text()
    path.write_text(f"{text}width: 4.5\n")
    try:
        assert axes("curves", "--config", "width=3.3")[0].figure.get_figwidth() == 4.5
    finally:
        path.write_text(text)


def test_a_panel_without_data_is_not_drawn_and_the_text_says_so(axes):
    assert [axis.get_title() for axis in axes("surface")] == ["FedAvg", "FedSAM over FedAvg"]
    text = " ".join(Path("drawn/surface.txt").read_text().split())
    assert "Not drawn, without data: Not made; Diverged." in text
    assert "Seed 1. x, y: steps along" in text


@pytest.mark.parametrize(("name", "explained"), [("curves_probes", True), ("curves", False)])
def test_the_text_explains_dashes_but_not_next_to_a_variant(axes, name, explained):
    assert axes(name)
    assert ("Dashed: sharpness-aware" in Path(f"drawn/{name}.txt").read_text()) == explained


def test_a_warning_about_a_trace_is_not_one_about_eigenvalues(axes):
    """PyHessian's trace of a FedSAM model has not converged."""
    assert axes("eigenvalues") and "warning" not in Path("drawn/eigenvalues.txt").read_text()


@pytest.mark.parametrize("name", ["curves", "eigenvalues", "surface"])
def test_a_picture_without_data_says_so(axes, name):
    assert not axes(name, "--scale", "preview")
    assert "Nothing to draw: all runs diverged" in Path(f"drawn/{name}.txt").read_text()


def test_panels_of_a_preview_name_its_data():
    titles = [panel.title for panel in at_scale.figure(EXP, "preview", "dfedsam2023_F3").panels]
    assert titles[0] == "CIFAR-10, IID (preview on digits)"
    assert titles[3] == "CIFAR-100, IID (preview on digits-20)"
    assert at_scale.figure(EXP, "preview", "fedsmoo2023_F7").panels[0].title == "Dirichlet, u = 0.6 (preview on digits)"
    titles = [panel.title for panel in at_scale.figure(EXP, "preview", "fedsmoo2023_F5").panels]
    assert titles[1] == "Pathological, c = 6 (preview on digits-20)", "30 of 100 classes are 6 of 20"
