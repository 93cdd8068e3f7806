"""Pictures of loss surfaces: what is drawn where, what is said, what is refused."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.text import Text

import made
from flatfed import figures
from flatfed.analysis.landscape.landscape_file import Landscape, read, write
from flatfed.errors import DataError
from flatfed.figures import surface_3d as surface

AXIS = np.linspace(-1, 1, 5)
BOWL = 0.5 + 2 * AXIS[:, None] ** 2 + AXIS[None, :]  # tilted: the first coordinate is not the second


def about(names, **changes):
    models = [made.landscape_model(name) for name in names]
    return made.landscape_about(models, **{"images": 1290, "images_sha256": "f" * 64, **changes})


@pytest.fixture
def files(tmp_path):
    """Files: a and b, wild of model a with values that are not finite."""
    wild = BOWL.copy()
    wild[0, 0], wild[4, 4] = np.inf, np.nan
    for name, model, losses in (("a", "a", BOWL), ("b", "b", 2 * BOWL + 4), ("wild", "a", wild)):
        values = losses[None]
        write(tmp_path / f"{name}.npz", Landscape(about([model]), AXIS, AXIS, values, values / 20))
    return tmp_path


@pytest.fixture
def spec(files):
    """Panels: a alone, a and b, one that is not made."""
    panels = [("A", ["a"]), ("B over A", ["a", "b"]), ("C", ["none"])]
    return {
        "figure": "f", "kind": "surface", "scale": "preview", "title": "Surfaces", "paper": "P, Figure 3",
        "panels": [
            {
                "title": title,
                "marks": [{"label": name.upper(), "files": [str(files / f"{name}.npz")]} for name in names],
            }
            for title, names in panels
        ],
    }  # fmt: skip


def texts(figure) -> str:
    return " ".join(t.get_text().replace("\n", " ") for t in figure.findobj(Text))


def corners(axis) -> np.ndarray:
    """Corners (faces, 4, 3) of what a panel shows."""
    (collection,) = axis.collections
    return np.asarray(collection._faces)


def test_surface_shows_every_cell_at_its_place_with_shared_axes(spec):
    figure = surface.draw(made.figure_spec(spec))
    alone, both, absent = figure.axes
    assert alone.get_zlim() == both.get_zlim() == absent.get_zlim() == (-0.5, 11.0)
    assert alone.get_xlim() == both.get_ylim() == absent.get_xlim() == (-1, 1)
    assert alone.get_zlabel() == "Loss (nats)"
    found = corners(alone)
    assert found.shape == (16, 4, 3)
    x, y, z = found.reshape(-1, 3).T
    np.testing.assert_allclose(z, 0.5 + 2 * x**2 + y)
    assert len(corners(both)) == 32
    colours = both.collections[0].get_facecolor()
    assert (colours[:, 3] == 1).sum() == (colours[:, 3] == 0).sum() == 16, "one filled, the other a mesh"
    assert not absent.collections


def test_surface_says_what_it_is(spec):
    said = texts(surface.draw(made.figure_spec(spec)))
    assert "Preview scale, not the paper's data: Surfaces" in said and "P, Figure 3" in said
    assert "surface: A, mesh: B" in said and "not made" in said and "Missing surfaces: 1." in said
    assert "scaled to each model's own filters; biases" in said
    assert "two random directions (draw 0, the same for all)" in said
    assert "On 1,290 of the clients' training images, the same for all." in said
    alone = texts(surface.draw(made.figure_spec({**spec, "panels": spec["panels"][:1]})))
    assert "mesh" not in alone and "Missing" not in alone
    assert "On 1,290 of the clients' training images." in alone


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"images_sha256": "e" * 64}, "has losses on other images (SHA-256 of their positions eeeeeeeeeeee), but"),
        ({"set": "test", "images_sha256": "e" * 64}, "has losses on test images, but"),
        ({"seed": 2}, "has directions of draw 2, but"),
        ({"range": 0.5}, "has a range of 0.5, but"),
        ({"grid": 7}, "has 7 points along a direction, but"),
    ],
)
@pytest.mark.parametrize("beside", [True, False])
def test_surfaces_that_do_not_compare_are_refused(spec, files, changes, words, beside):
    """In one panel, or in two panels of one protocol; of other protocols, panels have images of their own."""
    write(files / "other.npz", Landscape(about(["b"], **changes), AXIS, AXIS, BOWL[None], BOWL[None]))
    entries = [{"label": n, "files": [str(files / file)]} for n, file in (("A", "a.npz"), ("B", "other.npz"))]
    groups = [entries] if beside else [[entry] for entry in entries]
    panels = [{"title": f"P{place}", "marks": group} for place, group in enumerate(groups)]
    with pytest.raises(DataError) as caught:
        surface.draw(made.figure_spec({**spec, "panels": panels}))
    assert f"figure f: P{len(panels) - 1}: {files}/other.npz {words} {files}/a.npz (P0)" in str(caught.value)
    assert ("`set: test` in the figure" in str(caught.value)) == (list(changes) == ["images_sha256"])
    found = read(files / "other.npz")
    models = [replace(found.about.models[0], name="q~label/s/b/seed1")]
    write(files / "other.npz", replace(found, about=replace(found.about, models=models)))
    if beside:
        with pytest.raises(DataError, match="do not compare"):
            surface.draw(made.figure_spec({**spec, "panels": panels}))
    else:
        surface.draw(made.figure_spec({**spec, "panels": panels}))


def test_surfaces_on_another_data_set_are_refused(spec, files):
    other = made.landscape_model("b", digests=made.digests(dataset="d" * 64))
    whose = replace(about(["b"]), models=[other])
    write(files / "other.npz", Landscape(whose, AXIS, AXIS, BOWL[None], BOWL[None]))
    entries = [{"label": n, "files": [str(files / file)]} for n, file in (("A", "a.npz"), ("B", "other.npz"))]
    with pytest.raises(DataError, match=r"other\.npz has losses on another dataset \(SHA-256 dddddddddddd\), but"):
        surface.draw(made.figure_spec({**spec, "panels": [{"title": "P", "marks": entries}]}))


def test_values_that_are_not_finite_are_left_out_and_counted(spec, files):
    entry = {"label": "A", "files": [str(files / "wild.npz")]}
    figure = surface.draw(made.figure_spec({**spec, "panels": [{"title": "A", "marks": [entry]}]}))
    assert len(corners(figure.axes[0])) == 14
    assert "2 points without a finite value are left out" in texts(figure)


def test_accuracy_is_in_percent(spec):
    figure = surface.draw(made.figure_spec({**spec, "metric": "accuracy"}))
    assert figure.axes[0].get_zlabel() == "Accuracy (%)"
    np.testing.assert_allclose(figure.axes[0].get_zlim(), (-2.5, 55))


def diverge(files, name: str, *places: int) -> None:
    """Have the runs of models of a file diverge in round 7."""
    found = read(files / name)
    models = [replace(model, diverged_at=7 if i in places else None) for i, model in enumerate(found.about.models)]
    found.loss[:] = found.accuracy[:] = np.nan
    write(files / name, replace(found, about=replace(found.about, models=models)))


def test_the_panel_of_a_run_that_diverged_is_empty_and_says_so(spec, files):
    diverge(files, "b.npz", 0)
    figure = surface.draw(made.figure_spec(spec))
    assert len(corners(figure.axes[0])) == 16 and not figure.axes[1].collections
    assert [text.get_text() for text in figure.axes[1].texts] == ["b diverged in round 7"]
    assert "Without a surface: b diverged in round 7." in texts(figure) and "Missing surfaces: 1." in texts(figure)
    assert figure.axes[0].get_zlim() == (-0.5, 3.5), "of what is there"


def test_what_cannot_be_drawn_is_refused_by_name(spec):
    with pytest.raises(DataError, match="figure f: unknown metric 'los'; did you mean 'loss'"):
        surface.draw(made.figure_spec({**spec, "metric": "los"}))


def test_the_same_inputs_give_the_same_bytes(spec):
    for suffix, options in figures.FORMATS.items():
        written = []
        for _ in range(2):
            figure, file = surface.draw(made.figure_spec(spec)), io.BytesIO()
            figure.savefig(file, format=suffix, **{**options, "dpi": 40} if suffix == "png" else options)
            pyplot.close(figure)
            written.append(file.getvalue())
        assert written[0] == written[1] and len(written[0]) > 1000
