"""benchmarks/flatness.py: which of two algorithms has the flatter minimum, paired over seeds."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

import made
from flatfed.errors import DataError
from flatfed.runs.curvature import Converged

PATH = Path(__file__).parents[2] / "benchmarks" / "flatness.py"


@pytest.fixture(scope="module")
def flatness():
    spec = importlib.util.spec_from_file_location("flatness", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(folder: Path, algorithm: str, seed: int, top: float, **changes) -> None:
    found = made.hessian(top, 10 * top, **changes)
    own = replace(found.own, converged=Converged(eigenvalues=True, trace=seed != 2))
    made.written(folder / algorithm / f"seed{seed}" / "hessian.json", replace(found, own=own))


def test_the_interval_is_that_of_the_paired_differences(flatness, tmp_path):
    for seed, (a, b) in enumerate([(5, 4), (7, 5), (6, 3)], start=1):
        write(tmp_path, "fedavg", seed, a)
        write(tmp_path, "fedsam", seed, b)
    write(tmp_path, "fedavg", 4, 100)  # a seed that only one has
    eigenvalue, trace, scaled_eigenvalue, scaled_trace = flatness.compared(tmp_path, "fedavg", ["fedsam"])[2:]
    # Differences -1, -2, -3: mean -2, deviation 1, t(2) = 4.3027, so 2.484 on either side.
    assert "| 3 | 6 | 4 | -1, -2, -3 | -2 [-4.48, +0.484] | 0 of 6 |" in eigenvalue
    assert "| 3 | 60 | 40 | -10, -20, -30 | -20 [-44.8, +4.84] | 2 of 6 |" in trace
    assert "scaled top eigenvalue | 3 | 0.6 | 0.4 | -0.1, -0.2, -0.3 | -0.2 [-0.448, +0.0484] |" in scaled_eigenvalue
    assert "scaled trace | 3 | 6 | 4 | -1, -2, -3 | -2 [-4.48, +0.484] | 0 of 6 |" in scaled_trace


def test_converted_files_are_compared_by_what_they_have(flatness, tmp_path):
    for algorithm, top in (("fedavg", 5), ("fedsam", 4)):
        for seed in (1, 2, 3):
            write(tmp_path, algorithm, seed, top)
            if algorithm == "fedsam":
                made.unscaled(tmp_path / algorithm / f"seed{seed}" / "hessian.json")
    lines = flatness.compared(tmp_path, "fedavg", ["fedsam"])[2:]
    assert [line.split(" | ")[0] for line in lines] == ["| fedsam, top eigenvalue", "| fedsam, trace"]


def test_two_seeds_get_no_interval(flatness, tmp_path):
    for seed in (1, 2):
        write(tmp_path, "fedavg", seed, 5)
        write(tmp_path, "fedsam", seed, 4 + seed / 2)
    assert "| -0.5, +0 | -0.25, no interval |" in flatness.compared(tmp_path, "fedavg", ["fedsam"])[2]


def test_a_run_that_diverged_is_named_and_its_seed_not_left_out(flatness, tmp_path):
    for seed in (1, 2, 3):
        write(tmp_path, "fedavg", seed, 5)
        write(tmp_path, "fedsam", seed, 4)
        write(tmp_path, "fedsmoo", seed, 3)
    made.written(tmp_path / "fedsam/seed2/hessian.json", made.hessian_of_diverged())
    lines = flatness.compared(tmp_path, "fedavg", ["fedsam", "fedsmoo"])[2:]
    assert [line for line in lines if "diverged: fedsam, seed 2, in round 7" in line] == lines[:4]
    assert "| 3 | 5 | 3 | -2, -2, -2 | -2 [-2, -2] |" in lines[4]


def test_what_cannot_be_compared_is_said(flatness, tmp_path):
    write(tmp_path, "fedavg", 1, 5)
    with pytest.raises(DataError, match=r"fedsam: holds no seed<k>/hessian.json"):
        flatness.compared(tmp_path, "fedavg", ["fedsam"])
    write(tmp_path, "fedsam", 2, 5)
    with pytest.raises(DataError, match="fedavg and fedsam have no seed in common"):
        flatness.compared(tmp_path, "fedavg", ["fedsam"])
    write(tmp_path, "fedsam", 1, 5, images=8)
    with pytest.raises(DataError, match="seed 1: images is 9 of fedavg, but 8 of fedsam"):
        flatness.compared(tmp_path, "fedavg", ["fedsam"])
