"""Loss surfaces by the command line. The values: tests/oracle/test_surface.py; damaged files: tests/runs."""

import numpy as np
import pytest

from flatfed import cli
from flatfed.analysis.landscape import landscape_file
from flatfed.errors import DataError
from made import landscape_about, landscape_model


def test_the_command_line_makes_a_surface(problem):
    data = ["--dataset", "data", "--partition", "partition.npz", "--device", "cpu"]
    assert cli.main(["surface", "run", *data, "--grid", "3", "--out", "s.npz", "--images", "all"]) == 0
    found = landscape_file.read("s.npz")
    assert found.loss.shape == (1, 3, 3) and np.isfinite(found.loss).all()
    assert found.x.tolist() == [-1, 0, 1] and found.about.images == 49


def test_losses_of_other_models_are_refused(tmp_path):
    path, about = tmp_path / "s.npz", landscape_about([landscape_model("a")])
    landscape_file.write(path, landscape_file.Landscape(about, np.zeros(3), np.zeros(3), *np.zeros((2, 2, 3, 3))))
    with pytest.raises(DataError, match=r"s\.npz: a surface with losses of shape \(2, 3, 3\), not \(1, 3, 3\)"):
        landscape_file.read(path)
