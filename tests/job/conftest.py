"""Settings of all tests of jobs."""

import pytest

from flatfed.engine.job import checkpoint


@pytest.fixture(autouse=True)
def planned_checkpoints(monkeypatch):
    """Write all planned checkpoints, however slow the disk is."""
    monkeypatch.setattr(checkpoint, "SHORT", float("inf"))
