"""The page of all figures: each is on it once, in the papers' order, under its name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from flatfed import cli
from flatfed.errors import DataError
from flatfed.figures import gallery

#: A colour a figure, as the palette of the page has it.
COLOURS = {
    "fedsmoo2023_F2": (200, 0, 0),
    "fedsmoo2023_F3": (0, 160, 0),
    "fedsmoo2023_F9": (0, 0, 200),
    "fedsmoo2023_F10": (120, 60, 0),
}


def make_figures(folder: Path) -> None:
    for height, (name, colour) in enumerate(COLOURS.items(), start=1):
        Image.new("RGB", (400, 100 * height), colour).save(folder / f"{name}.png")


def test_every_figure_is_there_once_and_whole_in_the_order_of_the_paper(tmp_path: Path) -> None:
    make_figures(tmp_path)
    assert cli.main(["gallery", str(tmp_path), "--out", str(tmp_path / "page/all.png"), "--head", "preview"]) == 0
    page = np.asarray(Image.open(tmp_path / "page/all.png").convert("RGB"))
    corners = []
    for height, colour in enumerate(COLOURS.values(), start=1):
        rows, columns = np.nonzero((page == colour).all(axis=2))
        expected = (gallery.WIDTH, round(100 * height * gallery.WIDTH / 400))
        assert (columns.max() - columns.min() + 1, rows.max() - rows.min() + 1) == expected
        assert len(rows) == expected[0] * expected[1], "nothing lies over it"
        corners.append((rows.min(), columns.min()))
    assert corners[:3] == sorted(corners[:3]), "F2, F3, F9 from left to right"
    assert corners[3][1] == corners[0][1] and corners[3][0] > corners[0][0], "F10 under the shortest column, that of F2"
    assert (page[: gallery.HEAD, : gallery.WIDTH] == 0).all(axis=2).any(), "the head line"


def test_no_figures_and_damaged_ones_are_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no figures \(\*\.png\)"):
        gallery.make(tmp_path, tmp_path / "all.png")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG")
    with pytest.raises(DataError, match=r"broken\.png: not a picture"):
        gallery.make(tmp_path, tmp_path / "out/all.png")
    assert not (tmp_path / "out").exists()
