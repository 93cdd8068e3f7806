"""Finished runs for analyses: one set for all tests, and a copy to spoil."""

import shutil
from pathlib import Path

import pytest

from harness import job

RUNS = {
    "run": {"precision": "float64"},
    "single": {"precision": "float32"},
    "wild": {"learning_rate": 1e200, "clip_norm": None, "precision": "float64"},  # its weights are no numbers any more
}


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Path:
    """Return a folder with data, partition.npz and the RUNS of FedAvg."""
    folder = tmp_path_factory.mktemp("finished")
    for name, changes in RUNS.items():
        job(folder, "fedavg", name, rounds=2, **changes)
    return folder


@pytest.fixture
def problem(finished, tmp_path, monkeypatch) -> Path:
    """Return a copy of ``finished``, the current folder."""
    folder = Path(shutil.copytree(finished, tmp_path / "problem"))
    monkeypatch.chdir(folder)
    return folder
