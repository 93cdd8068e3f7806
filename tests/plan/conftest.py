"""A project with photos and a folder of tables, for tests of a user's own files."""

from __future__ import annotations

import pytest

import own_files


@pytest.fixture
def here(tmp_path, monkeypatch, small_config):
    """A folder with photos and one of tables, the current folder; they are loaded next to a small configuration."""
    own_files.photos(tmp_path)
    monkeypatch.setattr(own_files, "ROOT", small_config)
    monkeypatch.chdir(tmp_path)
    return tmp_path
