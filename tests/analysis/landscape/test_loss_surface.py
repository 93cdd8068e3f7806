"""Loss surfaces by the command line, and their damaged files. The values: tests/oracle/test_surface.py."""

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


def write_two_losses(path):
    about = landscape_about([landscape_model("a")])
    landscape_file.write(path, landscape_file.Landscape(about, np.zeros(3), np.zeros(3), *np.zeros((2, 2, 3, 3))))


def write_earlier_format(path):
    np.savez(path, format=np.array(1), kind=np.array("surface"), about=np.array("{}"), x=np.zeros(3), y=np.zeros(3))


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: None, "no such loss surface"),
        (lambda path: path.write_bytes(b"no"), "cannot be read as a loss surface"),
        (write_earlier_format, r"cannot be read .*format 1, but 3 is known\); delete it"),
        (write_two_losses, r"a surface with losses of shape \(2, 3, 3\), not \(1, 3, 3\)"),
    ],
)
def test_damaged_surfaces_are_named(tmp_path, write, message):
    write(tmp_path / "s.npz")
    with pytest.raises(DataError, match=rf"s\.npz: {message}"):
        landscape_file.read(tmp_path / "s.npz")
